//go:build linux

package cgroup

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLimitV1 checks a v1 group's settings: without the socket limit, a sandbox holds gigabytes in unread connections,
// which nothing counts.
func TestLimitV1(t *testing.T) {
	dir := t.TempDir()
	want := map[string]string{
		"memory.limit_in_bytes": "67108864", "memory.kmem.tcp.limit_in_bytes": "16777216", "pids.max": "7",
		"cpu.cfs_period_us": "50000", "cpu.cfs_quota_us": "75000",
	}
	for name := range want {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := branch{Dir: dir, Controllers: []Controller{Memory, Pids, CPU}}
	if err := b.limit(Limits{MemoryBytes: 64 << 20, CPUMillis: 1500, Pids: 7}); err != nil {
		t.Fatal(err)
	}
	for name, value := range want {
		if got, _ := os.ReadFile(filepath.Join(dir, name)); string(got) != value {
			t.Errorf("%s is %q, not %q", name, got, value)
		}
	}
}

// TestCPUTime: the kernel refuses quotas below 1 ms and periods above 1 s; the share is as requested.
func TestCPUTime(t *testing.T) {
	for millis := int64(10); millis < 5000; millis++ { // 10 is the least that may be asked for
		quota, period := cpuTime(millis)
		if quota < leastQuota || period > 1_000_000 || quota*1000 > millis*period || quota*1000 < millis*period-period {
			t.Errorf("%d: %d of %d us", millis, quota, period)
		}
	}
}
