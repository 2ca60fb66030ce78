package egress

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// TestLevel: small wants are met, and the rest is shared by weight.
func TestLevel(t *testing.T) {
	for _, c := range []struct {
		total float64
		all   []demand
		want  float64
	}{
		{1, nil, math.Inf(1)},
		{1, []demand{{0.4, 1}, {0.5, 1}}, math.Inf(1)},
		{1, []demand{{5, 1}, {5, 1}}, 0.5},
		{1, []demand{{5, 1}, {0.2, 1}, {9, 1}}, 0.4},
		{1, []demand{{5, 1}, {5, 3}}, 0.25},
		{1, []demand{{0, 1}, {0, 1}, {5, 1}}, 1},
	} {
		if got := level(c.total, c.all); math.Abs(got-c.want) > 1e-9 && got != c.want {
			t.Errorf("%v of %v: %v, not %v", c.all, c.total, got, c.want)
		}
	}
}

// TestPace: gates that want too much get their part of the time, by the limits of their sandboxes and whoever owns
// them, and a gate that wants little waits for nothing.
func TestPace(t *testing.T) {
	for _, c := range []struct {
		total float64
		gates []string // owner and limit in thousandths of a CPU; "-" wants little
		want  []float64
	}{
		{1, []string{"a 100"}, []float64{0.1}},
		{2, []string{"a 100", "a 1000", "b 500"}, []float64{0.1, 1, 0.5}},
		{1, []string{"a 2000", "b 2000"}, []float64{0.5, 0.5}},
		{1, []string{"a 2000", "a 2000", "a 2000", "b 2000", "- 2000"}, []float64{0.165, 0.165, 0.165, 0.495, 0.01}},
		{1, []string{"a 500", "a 1500", "b 4000"}, []float64{0.125, 0.375, 0.5}},
	} {
		t.Run(fmt.Sprint(c.gates), func(t *testing.T) {
			now := time.Now()
			all := &processor{total: c.total, gates: map[*pace]string{}, began: now}
			var gates []*pace
			used := make([]float64, len(c.gates))
			for _, text := range c.gates {
				var owner string
				var millis int64
				fmt.Sscan(text, &owner, &millis)
				gates = append(gates, all.join(owner, millis, now))
			}
			const step, warm, end = 100 * time.Microsecond, 2 * time.Second, 12 * time.Second
			for at := time.Duration(0); at < end; at += step {
				for i, p := range gates {
					work := 200 * time.Microsecond
					if c.gates[i][0] == '-' {
						work = time.Microsecond
					}
					if rest, _ := p.rest(now.Add(at)); rest == 0 {
						p.spend(work)
						if at >= warm {
							used[i] += work.Seconds() / (end - warm).Seconds()
						}
					} else if c.gates[i][0] == '-' {
						t.Fatal("a gate that wants little has to wait")
					}
				}
			}
			for i := range gates {
				if math.Abs(used[i]-c.want[i]) > 0.1*c.want[i] {
					t.Errorf("the gate %s used %.3f CPUs, not %.3f", c.gates[i], used[i], c.want[i])
				}
			}
		})
	}
}

// TestSetCPU: a gate gets a new limit at once, also one that has to wait.
func TestSetCPU(t *testing.T) {
	now := time.Now()
	all := &processor{total: 4, gates: map[*pace]string{}, began: now}
	p := all.join("a", 2000, now)
	p.spend(paceBurst + time.Second)
	all.setCPU(p, 500)
	if rest, _ := p.rest(now); rest < 1900*time.Millisecond {
		t.Errorf("it waits for %s", rest)
	}
	p.waited.Store(true)
	if all.share(now.Add(paceWindow)); p.rate != 0.5 {
		t.Errorf("it has %.1f CPUs", p.rate)
	}
}

// TestRefund: a refund for work that a gate has paid by waiting gives it no more than it may take at once, and others
// no more than all may have.
func TestRefund(t *testing.T) {
	now := time.Now()
	all := &processor{total: 1, gates: map[*pace]string{}, began: now}
	saver, b, c := all.join("a", 2000, now), all.join("b", 2000, now), all.join("c", 2000, now)
	saver.spend(10 * time.Second)
	now = now.Add(time.Minute)
	if rest, _ := saver.rest(now); rest != 0 {
		t.Fatal(rest)
	}
	saver.spend(-10 * time.Second)
	if got := time.Duration(saver.credit.Load()); got > paceBurst {
		t.Errorf("it may work for %s at once", got)
	}
	b.waited.Store(true)
	c.waited.Store(true)
	all.share(now.Add(paceWindow))
	if b.rate+c.rate > all.total {
		t.Errorf("the others may use %.1f and %.1f of %.0f CPUs", b.rate, c.rate, all.total)
	}
}
