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

// distance counts the bytes that must be changed, added or removed to turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
