module github.com/heraldbridge/herald/deploy/tools/webhooks

go 1.26.0

require (
	github.com/heraldbridge/herald v0.0.0
	github.com/standard-webhooks/standard-webhooks/libraries v0.0.1
)

require (
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace github.com/heraldbridge/herald => ../../..
