package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

// LoadConnections reads a folder with one connection per file, in the form of an entry of connections. Names that begin
// with a dot are skipped; a Kubernetes secret volume keeps its bookkeeping there. A file that is wrong does not keep
// the others from being loaded: the sound connections come back together with the [Errors].
func LoadConnections(dir string) ([]Connection, error) {
	files, err := listConnections(dir)
	if err != nil {
		return nil, Errors{{File: dir, Problem: outside(err)}}
	}
	var all []Connection
	var mistakes Errors
	taken := map[string]string{}
	for _, file := range files {
		data, err := readFile(file)
		if err != nil {
			mistakes = append(mistakes, Error{File: file, Problem: err.Error()})
			continue
		}
		c, wrong := parseConnection(file, data)
		if other, again := taken[c.Name]; again && c.Name != "" {
			wrong = append(wrong, Error{
				File: file, Line: c.Place.Line, Column: c.Place.Column, Path: "name",
				Problem: fmt.Sprintf("the name %s is used twice", quote(c.Name)), Hint: "the first is in " + other,
			})
		}
		if len(wrong) > 0 {
			mistakes = append(mistakes, wrong...)
			continue
		}
		taken[c.Name] = file
		all = append(all, c)
	}
	return all, mistakes.orNil()
}

// AllConnections gives the connections of the file and of connections_dir together. One in the folder whose name the
// file uses too is a mistake and is left out. Sound ones come back together with the [Errors].
func (c *Config) AllConnections() ([]Connection, error) {
	all := append([]Connection(nil), c.Connections...)
	if c.ConnectionsDir == "" {
		return all, nil
	}
	more, err := LoadConnections(string(c.ConnectionsDir))
	mistakes, _ := err.(Errors) //nolint:errorlint // LoadConnections returns nothing else
	for _, conn := range more {
		if i := indexConnection(c.Connections, conn.Name); i >= 0 {
			mistakes = append(mistakes, Error{
				File: conn.Place.File, Line: conn.Place.Line, Column: conn.Place.Column, Path: "name",
				Problem: fmt.Sprintf("the name %s is used twice", quote(conn.Name)),
				Hint:    "the first is in " + c.At(fmt.Sprintf("connections[%d].name", i)).String(),
			})
			continue
		}
		all = append(all, conn)
	}
	return all, mistakes.orNil()
}

func indexConnection(list []Connection, name string) int {
	for i, c := range list {
		if c.Name == name {
			return i
		}
	}
	return -1
}

// DirDigest is a digest of the names and contents of the files that [LoadConnections] reads. Compare it to see whether
// the folder has changed: times do not tell, since Kubernetes exchanges links.
func DirDigest(dir string) (string, error) {
	files, err := listConnections(dir)
	if err != nil {
		return "", fmt.Errorf("list connections: %w", err)
	}
	sum := sha256.New()
	for _, file := range files {
		data, err := readFile(file)
		if err != nil {
			return "", fmt.Errorf("read connection: %w", err)
		}
		content := sha256.Sum256(data)
		_, _ = io.WriteString(sum, fmt.Sprintf("%q %x\n", filepath.Base(file), content))
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// listConnections gives the files of a folder by name. Links are followed, folders left out.
func listConnections(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		file := filepath.Join(dir, e.Name())
		info, err := os.Stat(file)
		if os.IsNotExist(err) { // removed meanwhile, or a link whose target is being exchanged
			continue
		}
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() {
			files = append(files, file)
		}
	}
	return files, nil
}

// parseConnection reads the one connection of a file and checks it and its references.
func parseConnection(file string, data []byte) (Connection, Errors) {
	d, body, mistake := document(file, data)
	if mistake != nil {
		return Connection{}, Errors{*mistake}
	}
	if body == nil {
		return Connection{}, Errors{{File: file, Problem: "is empty"}}
	}
	var c Connection
	d.value(body, reflect.ValueOf(&c).Elem(), "")
	c.setPlace(d.itemPos(body))
	// The checks know a connection as an item of a list; its places are moved there and the prefix is cut off again.
	const prefix = "connections[0]"
	cfg := &Config{file: file, Connections: []Connection{c}, places: map[string]Pos{}, failed: map[string]bool{}}
	for path, at := range d.places {
		cfg.places[join(prefix, path)] = at
	}
	for path := range d.failed {
		cfg.failed[strings.TrimSuffix(join(prefix, path), ".")] = true
	}
	cfg.places[prefix] = c.Place
	k := cfg.checker()
	k.connection(c, prefix)
	k.readable(prefix+".token", c.Token)
	for i := range k.errs {
		k.errs[i].Path = strings.TrimPrefix(strings.TrimPrefix(k.errs[i].Path, prefix), ".")
	}
	return c, append(d.errs, k.errs...)
}
