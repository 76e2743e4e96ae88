package main

import (
	"cmp"
	"slices"
	"time"
)

// quantile is the value below which the share q of d lies; zero of nothing.
func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(d))
	return sorted[int(q*float64(len(sorted)-1))]
}

// median is the middle of v, or the mean of the two in the middle; zero of nothing.
func median[T cmp.Ordered](v []T, mean func(a, b T) T) T {
	var none T
	if len(v) == 0 {
		return none
	}
	sorted := slices.Sorted(slices.Values(v))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return mean(sorted[half-1], sorted[half])
}

func mid(v []float64) float64 {
	return median(v, func(a, b float64) float64 { return (a + b) / 2 })
}
