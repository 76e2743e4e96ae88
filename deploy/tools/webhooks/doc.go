// Package webhooks holds the receivers of docs/sinks/webhook.md, which use the
// Standard Webhooks libraries, against events signed as Herald signs them.
package webhooks
