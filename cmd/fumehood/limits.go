package main

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// limitFlags are the flags of limits, in the order in which limits are shown.
var limitFlags = []struct {
	name  sandbox.LimitName
	flag  string
	short string
	unit  string
	usage string
}{
	{sandbox.LimitMemory, "memory", "m", "SIZE", "memory"},
	{sandbox.LimitCPUs, "cpus", "", "N", "CPUs; fractions are allowed"},
	{sandbox.LimitPids, "pids", "", "N", "processes and threads"},
	{sandbox.LimitDisk, "disk", "", "SIZE", "bytes of all writable places together"},
	{sandbox.LimitInodes, "inodes", "", "N", "files and folders in the writable places"},
	{sandbox.LimitOpenFiles, "open-files", "", "N", "open files of one process"},
	{sandbox.LimitTimeout, "timeout", "", "DURATION", "wall time"},
	{sandbox.LimitOutput, "output-limit", "", "SIZE", "bytes kept of stdout and of stderr, each"},
}

// addLimits adds a flag for each limit.
func addLimits(flags *pflag.FlagSet, limits *sandbox.Limits) {
	for _, l := range limitFlags {
		text := l.usage + " (default " + sandbox.FormatLimit(l.name, sandbox.DefaultLimits.Get(l.name)) + ")"
		flags.VarP(&limitValue{name: l.name, unit: l.unit, limits: limits}, l.flag, l.short, text)
	}
}

// addTimeout adds the one limit that an execution in a living sandbox has of its own.
func addTimeout(flags *pflag.FlagSet, limits *sandbox.Limits) {
	flags.Var(&limitValue{name: sandbox.LimitTimeout, unit: "DURATION", limits: limits}, "timeout", "wall time (default that of the sandbox)")
}

// addMaxima adds a flag for the maximum of each limit.
func addMaxima(flags *pflag.FlagSet, limits *sandbox.Limits) {
	for _, l := range limitFlags {
		text := l.usage + " (default " + maximaShown[l.name] + ")"
		flags.Var(&limitValue{name: l.name, unit: l.unit, limits: limits}, "max-"+l.flag, text)
	}
}

// limitValue is one limit as a flag. Setting it names the limit: it is then enforced, or the run is rejected.
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
	one := sandbox.Limits{}
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
		return int64(d / time.Nanosecond), err
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
