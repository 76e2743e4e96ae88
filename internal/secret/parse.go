package secret

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// ErrNotReference says that a text names no place. It carries no part of the text, which may be a secret itself.
var ErrNotReference = errors.New("not a reference to a secret: write file:PATH, env:NAME or command:[PROGRAM, ARGUMENT, ...]")

// variable is the form of a name that every shell can set.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ParseSource reads a reference as it is written in a configuration: "file:PATH", "env:NAME", "command:[PROGRAM,
// ARGUMENT]", or a list of texts, which is a command. Errors never repeat what was written.
func ParseSource(reference any) (Source, error) {
	switch r := reference.(type) {
	case string:
		return parseText(r)
	case []string:
		return parseCommand(r)
	case []any:
		argv := make([]string, 0, len(r))
		for i, item := range r {
			text, ok := item.(string)
			if !ok {
				return Source{}, fmt.Errorf("item %d of the command is not text", i)
			}
			argv = append(argv, text)
		}
		return parseCommand(argv)
	default:
		return Source{}, ErrNotReference
	}
}

func parseText(reference string) (Source, error) {
	kind, rest, ok := strings.Cut(reference, ":")
	if !ok {
		return Source{}, ErrNotReference
	}
	switch Kind(kind) {
	case KindFile:
		if rest == "" || strings.ContainsRune(rest, 0) {
			return Source{}, errors.New("file: wants a path")
		}
		return File(rest), nil
	case KindEnv:
		if !variable.MatchString(rest) {
			return Source{}, errors.New("env: wants the name of a variable: letters, digits and _")
		}
		return Env(rest), nil
	case KindCommand:
		argv, err := parseList(strings.TrimSpace(rest))
		if err != nil {
			return Source{}, err
		}
		return parseCommand(argv)
	case KindNone, KindLiteral:
	}
	return Source{}, ErrNotReference
}

func parseCommand(argv []string) (Source, error) {
	if len(argv) == 0 || argv[0] == "" {
		return Source{}, errors.New("command: wants a program")
	}
	for _, arg := range argv {
		if strings.ContainsRune(arg, 0) {
			return Source{}, errors.New("command: an argument holds a NUL byte")
		}
	}
	return Command(argv...), nil
}

// parseList reads "[a, 'b', "c d"]". Words need no quotes unless they hold a comma, a quote or a bracket.
func parseList(text string) ([]string, error) {
	inner, open := strings.CutPrefix(text, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if !open || !closed {
		return nil, errors.New("command: wants a list in brackets: command:[PROGRAM, ARGUMENT, ...]")
	}
	var argv []string
	for rest := strings.TrimSpace(inner); rest != ""; {
		word, after, err := nextWord(rest)
		if err != nil {
			return nil, err
		}
		argv = append(argv, word)
		after = strings.TrimSpace(after)
		if after == "" {
			return argv, nil
		}
		following, comma := strings.CutPrefix(after, ",")
		rest = strings.TrimSpace(following)
		if !comma || rest == "" {
			return nil, errors.New("command: arguments are separated by one comma each")
		}
	}
	return argv, nil
}

// nextWord takes the first word of a list off its front.
func nextWord(text string) (word, after string, err error) {
	switch text[0] {
	case '"':
		dec := json.NewDecoder(strings.NewReader(text))
		if err := dec.Decode(&word); err != nil {
			return "", "", errors.New("command: a text in double quotes is not closed or has an unknown escape")
		}
		return word, text[dec.InputOffset():], nil
	case '\'':
		for i := 1; i < len(text); i++ {
			if text[i] != '\'' {
				continue
			}
			if i+1 < len(text) && text[i+1] == '\'' { // two quotes stand for one, as in YAML
				i++
				continue
			}
			return strings.ReplaceAll(text[1:i], "''", "'"), text[i+1:], nil
		}
		return "", "", errors.New("command: a text in single quotes is not closed")
	}
	end := strings.IndexByte(text, ',')
	if end < 0 {
		end = len(text)
	}
	word = strings.TrimSpace(text[:end])
	if word == "" || strings.ContainsAny(word, `[]{}"'`) {
		return "", "", errors.New("command: put an argument with brackets or quotes in double quotes")
	}
	return word, text[end:], nil
}
