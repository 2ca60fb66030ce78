//go:build unix

package python_test

import (
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/lang/langtest"
	"github.com/glovebox-dev/glovebox/internal/lang/python"
)

// What the code waits in when it is interrupted; it has printed its line by then. State stays, and the next run is in order.
func TestDriverInterrupt(t *testing.T) {
	d := langtest.StartDriver(t, python.Language, nil)
	d.Run("import asyncio, time, signal, threading\nstate = 41")
	for name, wait := range map[string]string{
		"sleep":   "time.sleep(600)",
		"loop":    "while True: pass",
		"command": "!sleep 600",
		"await":   "await asyncio.sleep(600)",
		"lock":    "l = threading.Lock(); l.acquire(); l.acquire()",
		"handler": "signal.signal(signal.SIGALRM, lambda *a: None); time.sleep(600)",
		"finally": "try: await asyncio.sleep(600)\nfinally: state += 0",
	} {
		t.Run(name, func(t *testing.T) {
			d.Interrupt() // between two runs: nothing
			d.Start("print('waiting')\n" + wait)
			d.Printed(1)
			o := d.WaitInterrupted()
			if o.Error == nil || o.Error.Name != "KeyboardInterrupt" || o.Exit != 1 || !strings.Contains(o.Stderr, "KeyboardInterrupt") {
				t.Errorf("%+v", o)
			}
			if o := d.Run("print(state + 1)"); o.Stdout != "42\n" || o.Error != nil {
				t.Errorf("after it: %+v", o)
			}
		})
	}
	d.Run("signal.signal(signal.SIGINT, signal.SIG_IGN)")
	if o := d.Run("signal.raise_signal(signal.SIGINT)"); o.Error == nil {
		t.Error("a handler of an earlier run still stands")
	}
}

// Interrupts that come at any moment around the end of a run cost neither the driver nor a report.
func TestDriverInterruptRace(t *testing.T) {
	d := langtest.StartDriver(t, python.Language, nil)
	for i := range 300 {
		d.Start("for i in range(200): display(i) if i % 50 == 0 else None")
		for range i % 4 {
			d.Interrupt()
		}
		if o := d.Wait(); o.Error != nil && o.Error.Name != "KeyboardInterrupt" {
			t.Fatalf("%+v", o)
		}
	}
	if o := d.Run("print(42)"); o.Stdout != "42\n" || o.Stderr != "" {
		t.Errorf("%+v", o)
	}
}
