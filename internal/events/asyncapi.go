package events

// AsyncAPI is the AsyncAPI 3.0 document of the subjects that events are
// published on. It refers to the file of Schema, beside which it is served.
func AsyncAPI() ([]byte, error) {
	return indented(map[string]any{
		"asyncapi": "3.0.0",
		"info": map[string]any{
			"title":   "Herald events",
			"version": "1.0.0",
			"description": "Every change of a watched purchase as one CloudEvents document. An event is a hint to look: " +
				"it has no authority, and never replaces the agent's own status read.",
		},
		"defaultContentType": "application/cloudevents+json",
		"channels": map[string]any{
			"purchases": channel("envoy.purchase.{connection}.{purchase}",
				"All events of one purchase. The last message is its current state.", "changed", "overdue"),
			"notices": channel("envoy.notice.{connection}", "Notices of one connection.", "notice"),
		},
		"operations": map[string]any{
			"publishPurchases": operation("purchases"),
			"publishNotices":   operation("notices"),
		},
		"components": map[string]any{
			"messages": map[string]any{
				"changed": message("changed", TypeChanged),
				"overdue": message("overdue", TypeOverdue),
				"notice":  message("notice", TypeNotice),
			},
			"parameters": map[string]any{
				"connection": map[string]any{"description": "Name of the connection: [A-Za-z0-9_-]{1,64}."},
				"purchase":   map[string]any{"description": "The purchase: pur_ and 32 hexadecimal digits."},
			},
		},
	})
}

// channel is one family of subjects.
func channel(address, what string, messages ...string) map[string]any {
	refs := map[string]any{}
	for _, m := range messages {
		refs[m] = ref("#/components/messages/" + m)
	}
	parameters := map[string]any{"connection": ref("#/components/parameters/connection")}
	if len(messages) > 1 {
		parameters["purchase"] = ref("#/components/parameters/purchase")
	}
	return map[string]any{
		"address": address, "description": what + " Stream " + StreamPurchases + ".",
		"parameters": parameters, "messages": refs, "bindings": map[string]any{"nats": map[string]any{}},
	}
}

// operation tells that Herald publishes on a channel.
func operation(name string) map[string]any {
	return map[string]any{"action": "send", "channel": ref("#/channels/" + name)}
}

// message is one type of event.
func message(name string, t Type) map[string]any {
	headers := map[string]any{
		"Nats-Msg-Id": map[string]any{"type": "string", "description": "The id of the event."},
	}
	if t != TypeNotice {
		headers[HeaderSituation] = map[string]any{"type": "string", "description": "Repeats the situation, for cheap filters."}
	}
	return map[string]any{
		"name": string(t), "contentType": "application/cloudevents+json",
		"headers": map[string]any{"type": "object", "properties": headers},
		"payload": map[string]any{
			"schemaFormat": "application/schema+json;version=2020-12",
			"schema":       ref("./events.schema.json#/$defs/" + name),
		},
	}
}

func ref(to string) map[string]any { return map[string]any{"$ref": to} }
