package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// fieldsOf gives the fields of a section by their keys.
func fieldsOf(t reflect.Type) map[string]reflect.StructField {
	fields := map[string]reflect.StructField{}
	for field := range t.Fields() {
		if key := field.Tag.Get("yaml"); key != "" && key != "-" {
			fields[key] = field
		}
	}
	return fields
}

// keysOf gives the keys of a section in the order of its fields.
func keysOf(t reflect.Type) []string {
	var keys []string
	for field := range t.Fields() {
		if key := field.Tag.Get("yaml"); key != "" && key != "-" {
			keys = append(keys, key)
		}
	}
	return keys
}

// fresh makes a value of a type with its defaults, and gives the pointer to it.
func fresh(t reflect.Type) reflect.Value {
	p := reflect.New(t)
	switch target := p.Interface().(type) {
	case *Sink:
		*target = DefaultSink(KindNone)
	case *Slack:
		*target = *DefaultSink(KindSlack).Slack
	case *Email:
		*target = *DefaultSink(KindEmail).Email
	case *Webhook:
		*target = *DefaultSink(KindWebhook).Webhook
	}
	return p
}

// setPlace notes where a connection is written.
func (c *Connection) setPlace(at Pos) { c.Place = at }

// unknown notes a key that a section does not have, with the key that was probably meant.
func (d *decoder) unknown(e entry, section reflect.Type, path string) {
	keys := keysOf(section)
	hint := "known here: " + strings.Join(keys, ", ")
	if near := nearest(e.key, keys); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
		d.failed[join(path, near)] = true // that it is missing would be the same mistake again
	} else if owner := ownerOf(e.key, section); owner != "" {
		hint = fmt.Sprintf("it belongs under %q", owner)
	} else if _, ok := fieldsOf(reflect.TypeFor[Config]())[e.key]; ok && section != reflect.TypeFor[Config]() {
		hint = "it belongs at the top of the file, not indented"
	}
	d.note(e.at, path, fmt.Sprintf("unknown key %s", quote(e.key)), hint)
}

// ownerOf names the section below this one that has the key, if there is one.
func ownerOf(key string, section reflect.Type) string {
	for field := range section.Fields() {
		t := field.Type
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if name := field.Tag.Get("yaml"); name != "" && t.Kind() == reflect.Struct && !isScalar(t) && slices.Contains(keysOf(t), key) {
			return name
		}
	}
	return ""
}

// nearest gives the candidate that a word is probably a misspelling of, or "".
func nearest(word string, candidates []string) string {
	best, least := "", 0
	for _, c := range candidates {
		if len(word) > 3*len(c) {
			continue
		}
		distance := editDistance(strings.ToLower(word), c)
		if distance > max(len(word), len(c))/2 {
			continue
		}
		if best == "" || distance < least {
			best, least = c, distance
		}
	}
	return best
}

// editDistance counts the insertions, deletions, replacements and swaps of neighbours between two words.
func editDistance(a, b string) int {
	var before, last []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, make([]int, len(b)+1)
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
	}
	return row[len(b)]
}

func contains(words []string, word string) bool { return slices.Contains(words, word) }
