package settings

import (
	"cmp"
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// LimitFlag is the flag of a limit.
type LimitFlag struct {
	Name sandbox.LimitName
	Flag string

	short   string
	unit    string
	usage   string
	maximum string // the default maximum in the help of serve; "" is the one of largest
}

// LimitFlags are the flags of all limits, in the order of the help.
var LimitFlags = []LimitFlag{
	{sandbox.LimitMemory, "memory", "m", "SIZE", "memory", "half of this host's"},
	{sandbox.LimitCPUs, "cpus", "", "N", "CPUs; fractions are allowed", "all of this host's"},
	{sandbox.LimitPids, "pids", "", "N", "processes and threads", ""},
	{sandbox.LimitDisk, "disk", "", "SIZE", "bytes of all writable places together", "a quarter of memory"},
	{sandbox.LimitInodes, "inodes", "", "N", "files and folders in the writable places", ""},
	{sandbox.LimitOpenFiles, "open-files", "", "N", "open files of one process", ""},
	{sandbox.LimitTimeout, "timeout", "", "DURATION", "wall time; 0 is none", ""},
	{sandbox.LimitOutput, "output-limit", "", "SIZE", "bytes kept of stdout and of stderr, each", ""},
}

// AddLimits adds a flag for each limit.
func AddLimits(flags *pflag.FlagSet, limits *sandbox.Limits) {
	for _, l := range LimitFlags {
		usage := l.usage + " (default " + sandbox.FormatLimit(l.Name, sandbox.DefaultLimits.Get(l.Name)) + ")"
		flags.VarP(&limitValue{l.Name, l.unit, limits}, l.Flag, l.short, usage)
	}
}

// AddTimeout adds the flag of the time limit. A run in a living sandbox has no other limit.
func AddTimeout(flags *pflag.FlagSet, limits *sandbox.Limits) {
	flags.Var(&limitValue{sandbox.LimitTimeout, "DURATION", limits}, "timeout",
		"wall time; 0 is none (default that of the sandbox)")
}

// AddMaxima adds a flag for the maximum of each limit.
func AddMaxima(flags *pflag.FlagSet, limits *sandbox.Limits) {
	for _, l := range LimitFlags {
		maximum := cmp.Or(l.maximum, sandbox.FormatLimit(l.Name, largest.Get(l.Name)))
		flags.Var(&limitValue{l.Name, l.unit, limits}, "max-"+l.Flag, l.usage+" (default "+maximum+")")
	}
}

// AddOwnMaxima is AddMaxima for one of several clients.
func AddOwnMaxima(flags *pflag.FlagSet, limits *sandbox.Limits) {
	for _, l := range LimitFlags {
		flags.Var(&limitValue{l.Name, l.unit, limits}, "max-"+l.Flag, "most "+l.usage+" (default that of serve)")
	}
}

// limitValue is one limit as a flag. A limit that is set is named: it is enforced, or the run is rejected.
type limitValue struct {
	name   sandbox.LimitName
	unit   string
	limits *sandbox.Limits
}

func (v *limitValue) Type() string { return v.unit }

func (v *limitValue) String() string {
	if v.limits == nil || v.limits.Get(v.name) == 0 {
		return ""
	}
	return sandbox.FormatLimit(v.name, v.limits.Get(v.name))
}

func (v *limitValue) Set(text string) error {
	n, err := parseLimit(v.name, text)
	if err != nil {
		return err
	}
	var one sandbox.Limits
	one.Set(v.name, n)
	if err := one.Check(); err != nil {
		var e *sandbox.Error
		if errors.As(err, &e) && strings.Trim(text, "0123456789") == "" && v.unit == "SIZE" {
			e.Fix = "a bare number is bytes; write " + text + "MiB"
		}
		return err
	}
	v.limits.Set(v.name, n)
	return nil
}

func parseLimit(name sandbox.LimitName, text string) (int64, error) {
	switch name {
	case sandbox.LimitMemory, sandbox.LimitDisk, sandbox.LimitOutput:
		return sandbox.ParseBytes(text)
	case sandbox.LimitCPUs:
		return sandbox.ParseCPUs(text)
	case sandbox.LimitTimeout:
		d, err := sandbox.ParseTimeout(text)
		return int64(d), err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, sandbox.Invalidf(string(name), "%.40q is too large", text)
	}
	if err != nil || n <= 0 {
		return 0, sandbox.Invalidf(string(name), "%.40q is not a positive whole number", text)
	}
	return n, nil
}
