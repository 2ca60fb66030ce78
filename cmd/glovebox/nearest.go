package main

import "strings"

const (
	longestName  = 64 // longer ones are not compared
	mostMistakes = 3  // letters that may be wrong, missing or too many
)

// nearest returns the one of names that is most like a misspelt one, or "" where none is near.
func nearest(misspelt string, names []string) string {
	best, least := "", min(mostMistakes, (len(misspelt)+2)/3)+1
	if len(misspelt) > longestName {
		return ""
	}
	misspelt = strings.ToLower(misspelt)
	for _, name := range names {
		d := distance(misspelt, name)
		if strings.HasPrefix(name, misspelt) {
			d = 1
		}
		if d < least {
			best, least = name, d
		}
	}
	return best
}

// distance counts the bytes that must be changed, added, removed or swapped with their neighbour to turn a into b.
func distance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	before, last, row := rows[0], rows[1], rows[2]
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := last[j]
			if a[i] != b[j] {
				cost++
			}
			row[j+1] = min(cost, row[j]+1, last[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
