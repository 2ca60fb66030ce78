// Package nearest suggests the known name that a misspelt one most likely means, for error messages.
package nearest

import "strings"

// longestName limits the compared names, so that a hostile name costs little.
const longestName = 64

// Name returns the most likely known name, or "". Names may be dotted paths: "timeout" finds "limits.timeout_s". The
// distance must be at most a third of the name's length.
func Name(name string, known []string) string {
	want := plain(name)
	if want == "" || len(name) > longestName {
		return ""
	}
	best, bestDistance := "", len(want)/3+1
	for _, k := range known {
		d := editDistance(want, plain(k))
		if last := k[strings.LastIndexByte(k, '.')+1:]; last != k || strings.Contains(last, "_") {
			stem, _, _ := strings.Cut(last, "_")
			d = min(d, editDistance(want, plain(last)), 1+editDistance(want, stem))
		}
		if len(want) >= 3 && strings.HasPrefix(plain(k), want) {
			d = min(d, 1)
		}
		if d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// plain folds spellings: timeoutS, timeout-s and timeout_s are equal.
func plain(name string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name))
}

// editDistance counts the insertions, deletions, replacements and swaps of neighbours from a to b.
func editDistance(a, b string) int {
	var rows [3][longestName + 1]int
	if len(a) > longestName || len(b) > longestName {
		return longestName
	}
	before, last, row := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
