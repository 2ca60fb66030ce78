//go:build !race

package racing

const On = false
