package sandbox

import (
	"math"
	"strconv"
	"strings"
	"time"
)

func formatFloat(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

var byteUnits = []struct {
	suffix string
	bytes  float64
}{
	{"kib", kib}, {"mib", mib}, {"gib", gib}, {"tib", tib},
	{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12},
	{"k", kib}, {"m", mib}, {"g", gib}, {"t", tib}, {"b", 1},
}

// ParseBytes reads a size as users write it: "512MiB", "1.5 GiB", "100m" (binary), "64MB" (decimal), "4096" (bytes).
func ParseBytes(s string) (int64, error) {
	text := strings.ToLower(strings.TrimSpace(s))
	unit := 1.0
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(text, u.suffix); ok {
			text, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	f, err := parsePositive(text)
	if err != nil {
		return 0, Invalidf("size", "%.40q is not a size; write it like 512MiB", s)
	}
	if f*unit > math.MaxInt64/2 {
		return 0, Invalidf("size", "%.40q is too large", s)
	}
	return int64(f * unit), nil
}

// ParseCPUs reads a number of CPUs such as "1", "0.5" or "2.25" into thousandths.
func ParseCPUs(s string) (int64, error) {
	f, err := parsePositive(strings.TrimSpace(s))
	if err != nil {
		return 0, Invalidf("cpus", "%.40q is not a number of CPUs; write it like 1 or 0.5", s)
	}
	if f > 1e6 {
		return 0, Invalidf("cpus", "%.40q is too large", s)
	}
	return int64(math.Round(f * 1000)), nil
}

// ParseTimeout reads a duration such as "30s", "2m" or "1m30s"; a bare number is seconds. 0 is NoTimeout.
func ParseTimeout(s string) (time.Duration, error) {
	text := strings.TrimSpace(s)
	if text == "0" || text == "0s" {
		return NoTimeout, nil
	}
	if f, err := parsePositive(text); err == nil {
		if f >= 1e9 {
			return 0, Invalidf("timeout", "%.40q is too large", s)
		}
		return time.Duration(f * float64(time.Second)), nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, Invalidf("timeout", "%.40q is not a duration; write it like 30s", s)
	}
	return d, nil
}

// parsePositive accepts plain decimal notation only: no sign, exponent, hexadecimal, infinity or NaN.
func parsePositive(s string) (float64, error) {
	if s == "" || strings.Trim(s, "0123456789.") != "" {
		return 0, strconv.ErrSyntax
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f <= 0 {
		return 0, strconv.ErrRange
	}
	return f, nil
}
