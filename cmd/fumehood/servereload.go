package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fumehood-dev/fumehood/internal/cli/keyfile"
	"github.com/fumehood-dev/fumehood/internal/cli/settings"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/host/systemd"
	"github.com/fumehood-dev/fumehood/internal/httpd"
)

// reloadable are the settings, besides default limits and maxima, that a reload replaces.
var reloadable = []string{"slots-per-key", "queue-per-key", "sandboxes", "owner-sandboxes", "max-network",
	"network-allow", "allow-image", "log-level"}

// isReloadable reports whether a reload replaces a setting.
func isReloadable(flag string) bool {
	limit := strings.TrimPrefix(flag, "max-")
	return slices.Contains(reloadable, flag) ||
		slices.ContainsFunc(settings.LimitFlags, func(l settings.LimitFlag) bool { return l.Flag == limit })
}

// reloader replaces the keys and limits of a running server.
type reloader struct {
	app     *app
	flags   *serveFlags // as they were last read
	keys    *servedKeys
	engine  *engine.Engine
	addr    net.Addr
	manager systemd.Manager
	metrics *httpd.Metrics
}

// noteHangups records each SIGHUP for a reloader, also before the server serves, until stop is called.
func (a *app) noteHangups() (stop func()) {
	a.signals.hangups = make(chan struct{}, 1)
	return a.onHangup(untilTerminalEnds(func() {
		select {
		case a.signals.hangups <- struct{}{}:
		default: // one is waiting, and will read the same
		}
	}))
}

// tend reloads keys and limits after SIGHUP, and keys when their file has changed, ends the requests of expired keys,
// and reports to the service manager, until stop is called. noteHangups continues after that, so that a reload does not
// end a server that drains.
func (r *reloader) tend() (stop func()) {
	done := make(chan struct{})
	var tasks sync.WaitGroup
	tasks.Go(func() { r.loop(done, r.app.signals.hangups) })
	if every := systemd.Watchdog(r.app.LookupEnv) / 2; every > 0 {
		tasks.Go(func() { r.watchdog(done, every) })
	}
	return func() {
		close(done)
		tasks.Wait()
	}
}

// untilTerminalEnds returns a handler of SIGHUP that calls do. If the signal is the end of the terminal that started
// this process, the server ends instead.
func untilTerminalEnds(do func()) func() bool {
	had := hasTerminal()
	return func() bool {
		if had && !hasTerminal() {
			return false
		}
		do()
		return true
	}
}

// hasTerminal reports whether this process has a terminal that controls it (tty(4)).
func hasTerminal() bool {
	tty, err := os.Open("/dev/tty")
	if err == nil {
		_ = tty.Close() // it was only read
	}
	return err == nil
}

func (r *reloader) loop(done, hangups <-chan struct{}) {
	ticker := time.NewTicker(checkKeysEvery)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-hangups:
			r.app.tell(r.manager.Reloading())
			r.reload()
			r.app.tell(r.manager.Ready())
		case <-ticker.C:
			if r.keys.changed() {
				r.reloadKeys()
			}
			if n := r.keys.ring.EndExpired(time.Now()); n > 0 {
				r.app.note(terminal.Plain, "%d requests of expired keys were ended", n)
			}
		}
	}
}

// watchdog reports that this process is alive while its engine answers.
func (r *reloader) watchdog(done <-chan struct{}, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			r.engine.Stats() // waits for the locks that requests need
			r.app.tell(r.manager.Alive())
		}
	}
}

// tell logs an error of a message to the service manager.
func (a *app) tell(err error) {
	if err != nil {
		a.logger().Warn("the service manager cannot be reached", "error", err)
	}
}

// reload reads the settings and the keys again. What is broken keeps its former state.
func (r *reloader) reload() {
	next, err := r.app.rereadSettings()
	if err == nil {
		err = r.applySettings(next)
	}
	r.report("limits stay as they are", err)
	if l := r.app.serveLog.access; l != nil {
		r.report("access log stays as it is", l.reopen())
	}
	r.reloadKeys()
}

// rereadSettings reads the configuration file and the variables again, under the flags of the command line.
func (a *app) rereadSettings() (next *serveFlags, err error) {
	again := &app{Main: a.Main, interrupt: func(error) {}}
	again.line.reread = func(cmd *cobra.Command, f *serveFlags) error {
		next, f.set = f, cmd.Flags()
		return nil
	}
	root := again.newRoot()
	root.SetArgs(a.line.args)
	err = root.ExecuteContext(context.Background())
	if err == nil && next == nil {
		err = errors.New("the command line is not one of serve")
	}
	return next, err
}

// applySettings applies the limits of settings that were read again.
func (r *reloader) applySettings(next *serveFlags) error {
	changes, restart := settingChanges(r.flags.set, next.set)
	if len(restart) > 0 {
		r.app.warn("reload: changes of these settings need a restart: %s", inLog(restart))
	}
	next.keep(r.flags)
	if err := r.setLimits(next); err != nil {
		return err
	}
	r.flags = next
	r.app.serveLog.setLevel(r.app, &next.logs)
	if len(changes) == 0 {
		changes = []string{"no limit has changed"}
	}
	r.app.note(terminal.Plain, "reloaded the settings: %s", inLog(changes))
	return nil
}

// keep restores the running values of settings that need a restart and decide about limits: shares are parts of the
// slots and of the queue, and a server that fetches images requires a list of them.
func (f *serveFlags) keep(running *serveFlags) {
	f.config.Slots, f.config.Queue, f.pull = running.config.Slots, running.config.Queue, running.pull
}

// report counts the reload of a part, and logs that a broken part keeps its former state.
func (r *reloader) report(state string, err error) {
	r.metrics.Reloaded(err)
	if err != nil {
		r.app.warn("reload: the %s: %s", state, terminal.OneLine(textOf(err)))
	}
}

func (r *reloader) setLimits(f *serveFlags) error {
	config, err := f.limited(r.keys.ring.Keys(), r.addr)
	if err != nil {
		return err
	}
	return r.engine.SetLimits(config)
}

// unset stands for the value of a setting that has its default.
const unset = "unset"

// settingChanges describes how settings differ from former ones: those that a reload replaces, and all others.
func settingChanges(before, after *pflag.FlagSet) (changes, restart []string) {
	after.VisitAll(func(f *pflag.Flag) {
		old := before.Lookup(f.Name)
		switch {
		case old == nil || shownValue(old) == shownValue(f):
		case isReloadable(f.Name):
			changes = append(changes, fmt.Sprintf("%s is %s, was %s", f.Name, cmp.Or(shownValue(f), unset),
				cmp.Or(shownValue(old), unset)))
		default:
			restart = append(restart, f.Name)
		}
	})
	return changes, restart
}

// shownValue returns the value of a flag; "" is none. A list that is set and empty is "[]".
func shownValue(f *pflag.Flag) string {
	if _, isList := f.Value.(pflag.SliceValue); isList && !f.Changed {
		return ""
	}
	return f.Value.String()
}

// reloadKeys reads the keys again.
func (r *reloader) reloadKeys() {
	if r.keys.ring == nil {
		return
	}
	changes, err := r.keys.read()
	problem := ""
	if err != nil {
		problem = textOf(err)
	}
	if err == nil || problem != r.keys.problem { // it is read again each second
		r.report("API keys stay as they are", err)
	}
	r.keys.problem = problem
	if len(changes) == 0 {
		return
	}
	several := severalNames(r.keys.ring.Keys())
	r.keys.ring.Replace(keyfile.Keys(r.keys.entries))
	if !several {
		r.app.warnOfKernel(r.flags, r.keys.ring.Keys(), r.addr)
	}
	// shares depend on the number of clients
	if err := r.setLimits(r.flags); err != nil {
		r.report("limits stay as they are", err)
	}
	r.app.note(terminal.Plain, "reloaded the API keys: %s", inLog(changes))
}

// addressOf returns the address of --listen. Names and sockets have none.
func addressOf(listen string) net.Addr {
	if at, err := netip.ParseAddrPort(listen); err == nil {
		return net.TCPAddrFromAddrPort(at)
	}
	return nil
}

// checkConfig checks the settings of serve and the files that they name. It opens no port and starts nothing.
func (a *app) checkConfig(cmd *cobra.Command, f *serveFlags) error {
	keys, err := a.openKeys(f.door.keyFile)
	if err == nil {
		err = f.check()
	}
	if err == nil {
		err = httpd.CheckListen(f.door.listen, keys.ring)
	}
	if err == nil && f.door.cert != "" {
		err = (&certificate{cert: f.door.cert, key: f.door.key}).load()
	}
	if err == nil {
		err = a.offerVolumes(f, nil)
	}
	if err != nil {
		return err
	}
	config, err := a.servingConfig(f, keys, addressOf(f.door.listen))
	if err != nil {
		return err
	}
	e, err := a.openEngine(config) // which probes and starts nothing
	if err == nil {
		err = e.Close()
	}
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(map[string]any{"valid": true, "file": a.settings.File, "keys": len(keys.entries)})
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "the settings are valid; %d API keys\n", len(keys.entries))
	return err
}
