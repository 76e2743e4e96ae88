package app

import (
	"os"

	"github.com/heraldbridge/herald/config"
)

// load reads and checks a file for a role. Where only what the file refers to is wrong, such as a secret or a folder
// that is not there, its expressions and its connections are checked all the same, so that all mistakes are seen at
// once. Its errors are config.Errors.
func load(file string, role config.Role) (*config.Config, error) {
	cfg, err := config.LoadFor(file, role)
	if err == nil {
		return cfg, nil
	}
	text, rerr := os.ReadFile(file)
	if rerr != nil {
		return nil, err
	}
	cfg, perr := config.Parse(file, text)
	if perr != nil {
		return nil, err // the text itself is wrong: the rest would be guesses
	}
	errs := []error{err}
	if delivers(role) {
		_, rerr := compileRoutes(cfg)
		errs = append(errs, rerr)
	}
	if _, serr := os.Stat(string(cfg.ConnectionsDir)); watches(role) && serr == nil {
		_, cerr := cfg.AllConnections()
		errs = append(errs, cerr)
	}
	return nil, joinMistakes(errs)
}
