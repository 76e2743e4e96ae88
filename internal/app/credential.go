package app

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/heraldbridge/herald/internal/secret"
)

// credential is the token of one connection. It remembers which token the last
// call went out with, so that a refusal can be told from a rotation.
type credential struct {
	src secret.Source

	mu   sync.Mutex
	used secret.Value
}

// Token gives the token for a call.
func (c *credential) Token(ctx context.Context) (secret.Value, error) {
	v, err := c.src.Read(ctx)
	if err != nil {
		return v, err
	}
	if strings.ContainsFunc(v.Reveal(), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return secret.Value{}, fmt.Errorf("read token of %s: it has spaces, line ends or other characters that a token cannot have", c.src)
	}
	c.mu.Lock()
	c.used = v
	c.mu.Unlock()
	return v, nil
}

// Changed reads the source afresh and tells whether it gives another token than
// the last call used. A source that cannot be read has not changed.
func (c *credential) Changed(ctx context.Context) bool {
	c.src.Invalidate()
	v, err := c.src.Read(ctx)
	if err != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !v.Equal(c.used)
}
