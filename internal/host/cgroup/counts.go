package cgroup

// Counts are counters that the kernel never resets. A v1 group may have had other sandboxes before.
type Counts struct {
	OOMKills int64 `json:"oom_kills,omitempty"`
	Refused  int64 `json:"refused,omitempty"`
}
