//go:build linux

package cgroup

import (
	"context"
	"fmt"
	"os"

	"github.com/godbus/dbus/v5"
)

const (
	systemdName    = "org.freedesktop.systemd1"
	systemdPath    = "/org/freedesktop/systemd1"
	systemdManager = systemdName + ".Manager"
)

// startScope makes the service manager (for an ordinary user, the user's own) move this process into a new scope with a
// delegated subtree. See org.freedesktop.systemd1(5), StartTransientUnit.
func startScope(ctx context.Context, unit string) error {
	// The user's bus is at a fixed path (systemd's user@.service); many sessions lack the variable that names it.
	address := "unix:path=/run/dbus/system_bus_socket"
	if uid := os.Geteuid(); uid != 0 {
		address = fmt.Sprintf("unix:path=/run/user/%d/bus", uid)
	}
	conn, err := dbus.Connect(address, dbus.WithContext(ctx))
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.AddMatchSignalContext(ctx, dbus.WithMatchInterface(systemdManager),
		dbus.WithMatchMember("JobRemoved")); err != nil {
		return err
	}
	signals := make(chan *dbus.Signal, 64)
	conn.Signal(signals)

	type property struct {
		Name  string
		Value dbus.Variant
	}
	type auxiliary struct {
		Name       string
		Properties []property
	}
	properties := []property{
		{"Description", dbus.MakeVariant("Fumehood sandboxes")},
		{"PIDs", dbus.MakeVariant([]uint32{uint32(os.Getpid())})},
		{"Delegate", dbus.MakeVariant(true)},
		{"CollectMode", dbus.MakeVariant("inactive-or-failed")},
	}
	var job dbus.ObjectPath
	manager := conn.Object(systemdName, systemdPath)
	err = manager.CallWithContext(ctx, systemdManager+".StartTransientUnit", 0, unit, "fail", properties,
		[]auxiliary{}).Store(&job)
	if err != nil {
		return err
	}
	for {
		select {
		case s := <-signals:
			if len(s.Body) < 4 || s.Body[1] != job {
				continue
			}
			if s.Body[3] != "done" {
				return fmt.Errorf("the scope's job ended as %v", s.Body[3])
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
