package app

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"time"

	"github.com/heraldbridge/herald/config"
)

// Bounds of asking for a proof.
const (
	proofTimeout = 5 * time.Second
	proofMost    = 8 << 10 // bytes of a proof
)

// question is what the maker of proofs is told: one line of JSON.
type question struct {
	Method string `json:"method"`
	URL    string `json:"url"`
	SHA256 string `json:"sha256"` // of the exact body, in hexadecimal digits
}

// prover asks the command or the socket of a key-bound connection for the value
// of Envoy-Installation-Proof, afresh for each attempt. Nil without one.
func prover(p *config.Proof) func(ctx context.Context, method, url string, digest [32]byte) (string, error) {
	if p == nil {
		return nil
	}
	ask := askSocket(string(p.Socket))
	if len(p.Command) > 0 {
		ask = askCommand(p.Command)
	}
	return func(ctx context.Context, method, url string, digest [32]byte) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, proofTimeout)
		defer cancel()
		line, err := json.Marshal(question{method, url, hex.EncodeToString(digest[:])})
		if err != nil {
			return "", fmt.Errorf("encode question: %w", err)
		}
		out, err := ask(ctx, append(line, '\n'))
		if err != nil {
			return "", fmt.Errorf("ask for installation proof: %w", err)
		}
		return header(out)
	}
}

// header takes the first line of an answer, which must be fit for a header.
func header(out []byte) (string, error) {
	line, _, _ := strings.Cut(string(out), "\n")
	line = strings.TrimSuffix(line, "\r")
	if line == "" || len(line) > proofMost {
		return "", errors.New("read installation proof: the answer is empty or too long")
	}
	for i := range len(line) {
		if line[i] < ' ' || line[i] > '~' {
			return "", errors.New("read installation proof: the answer has characters that no header may have")
		}
	}
	return line, nil
}

// askCommand runs argv without a shell, with the question on standard input.
// What it prints to standard error is not shown: it may hold secrets.
func askCommand(argv []string) func(context.Context, []byte) ([]byte, error) {
	return func(ctx context.Context, line []byte) ([]byte, error) {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Stdin = bytes.NewReader(line)
		cmd.WaitDelay = time.Second
		var out short
		cmd.Stdout = &out
		err := cmd.Run()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("run %s: %w", argv[0], ctx.Err())
		}
		if err != nil {
			return nil, fmt.Errorf("run %s: it failed", argv[0])
		}
		return out.said, nil
	}
}

// short takes little more than a proof may have, so that a command that never stops talking fails.
type short struct{ said []byte }

func (s *short) Write(p []byte) (int, error) {
	if len(s.said)+len(p) > 2*proofMost {
		return 0, errors.New("the answer is too long")
	}
	s.said = append(s.said, p...)
	return len(p), nil
}

// askSocket writes the question to a unix socket and reads one line.
func askSocket(path string) func(context.Context, []byte) ([]byte, error) {
	return func(ctx context.Context, line []byte) ([]byte, error) {
		c, err := new(net.Dialer).DialContext(ctx, "unix", path)
		if err != nil {
			return nil, fmt.Errorf("dial socket: %w", err)
		}
		defer c.Close()
		stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
		defer stop()
		if _, err := c.Write(line); err != nil {
			return nil, fmt.Errorf("write question: %w", err)
		}
		var out bytes.Buffer
		for !bytes.ContainsRune(out.Bytes(), '\n') && out.Len() <= proofMost {
			if _, err := io.CopyN(&out, c, 1); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("read answer: %w", err)
			}
		}
		return out.Bytes(), nil
	}
}
