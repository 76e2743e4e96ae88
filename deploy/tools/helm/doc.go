// Package helm checks the chart: linted, rendered with several values, decoded
// strictly into the types of Kubernetes, and its configuration loaded as Herald
// loads it. It is a module of its own, so that none of this is a dependency of
// the product.
package helm
