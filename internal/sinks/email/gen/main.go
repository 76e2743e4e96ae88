// Command gen takes pictures of golden mails, light and dark, narrow and wide, with
// a headless Chromium (apt-get install chromium), so that reviewers and readers of the documentation see what
// an operator sees. Run it from the top of the project after the golden mails changed:
//
//	go run ./internal/sinks/email/gen
//
// It writes docs/img/mail-*.png, and pictures.txt beside the golden mails with the hash
// of each page; a test of the email package fails when a page changes and its pictures
// do not. A mail that is wider than its window is an error, also with the words of a
// golden mail that has no picture.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

const (
	goldens  = "internal/sinks/email/testdata"
	pictures = "docs/img"
)

// subjects are the golden mails worth a picture, by the names that pictures get.
func subjects() [][2]string {
	return [][2]string{{"confirming", "d-confirming"}, {"needs-support", "k-remind"}, {"alarm-over", "l-resolve"}}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	if err := os.MkdirAll(pictures, 0o755); err != nil { //nolint:gosec // documentation
		return fmt.Errorf("make folder: %w", err)
	}
	var sums strings.Builder
	for _, s := range subjects() {
		sum, err := portray(ctx, s[1], filepath.Join(pictures, "mail-"+s[0]))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%s  %s.eml mail-%s\n", sum, s[1], s[0])
	}
	unseen, err := os.MkdirTemp("", "mail-picture-*")
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(unseen) }()
	if _, err := portray(ctx, "m-long-words", filepath.Join(unseen, "long")); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(goldens, "pictures.txt"), []byte(sums.String()), 0o644); err != nil { //nolint:gosec // not secret
		return fmt.Errorf("write hashes: %w", err)
	}
	return nil
}

// portray takes the pictures of one golden mail and gives the hash of its page.
func portray(ctx context.Context, golden, name string) (string, error) {
	page, err := htmlOf(filepath.Join(goldens, golden+".eml"))
	if err != nil {
		return "", err
	}
	for scheme, number := range map[string]string{"dark": "0", "light": "1"} {
		for form, width := range map[string]int{"narrow": 400, "wide": 900} {
			file := name + "-" + scheme + "-" + form + ".png"
			if err := shoot(ctx, page, number, width, file); err != nil {
				return "", fmt.Errorf("take picture %s: %w", file, err)
			}
		}
	}
	sum := sha256.Sum256(page)
	return hex.EncodeToString(sum[:]), nil
}

// shoot takes one picture. The browser has a profile of its own and asks nobody
// for anything.
func shoot(ctx context.Context, page []byte, scheme string, width int, file string) error {
	dir, err := os.MkdirTemp("", "mail-picture-*")
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	source, shot := filepath.Join(dir, "mail.html"), filepath.Join(dir, "shot.png")
	if err := os.WriteFile(source, page, 0o600); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	const tall = 2400                           // more than any mail needs
	cmd := exec.CommandContext(ctx, "chromium", //nolint:gosec // all arguments are ours
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--hide-scrollbars", "--force-device-scale-factor=1",
		"--user-data-dir="+filepath.Join(dir, "profile"), "--blink-settings=preferredColorScheme="+scheme,
		fmt.Sprintf("--window-size=%d,%d", width, tall), "--screenshot="+shot, "file://"+source)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run chromium: %w\n%s", err, out)
	}
	return crop(shot, file)
}

// crop leaves out the empty space below the mail.
func crop(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("read picture: %w", err)
	}
	defer in.Close()
	shot, err := png.Decode(in)
	if err != nil {
		return fmt.Errorf("read picture: %w", err)
	}
	whole := shot.Bounds()
	for y := range whole.Dy() {
		if shot.At(whole.Max.X-1, whole.Min.Y+y) != shot.At(whole.Min.X, whole.Min.Y+y) {
			return errors.New("the mail is wider than the window")
		}
	}
	bottom := whole.Max.Y
	for bottom > whole.Min.Y+1 && empty(shot, bottom-1) {
		bottom--
	}
	const margin = 20
	frame := image.NewRGBA(image.Rect(0, 0, whole.Dx(), min(bottom+margin, whole.Max.Y)-whole.Min.Y))
	draw.Draw(frame, frame.Bounds(), shot, whole.Min, draw.Src)
	var b bytes.Buffer
	if err := png.Encode(&b, frame); err != nil {
		return fmt.Errorf("write picture: %w", err)
	}
	if err := os.WriteFile(to, b.Bytes(), 0o644); err != nil { //nolint:gosec // documentation
		return fmt.Errorf("write picture: %w", err)
	}
	return nil
}

// empty reports a line of one colour.
func empty(shot image.Image, y int) bool {
	first := shot.At(shot.Bounds().Min.X, y)
	for x := shot.Bounds().Min.X; x < shot.Bounds().Max.X; x++ {
		if shot.At(x, y) != first {
			return false
		}
	}
	return true
}

// htmlOf takes the HTML part out of a mail.
func htmlOf(path string) ([]byte, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read mail: %w", err)
	}
	m, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("read mail: %w", err)
	}
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		return nil, fmt.Errorf("read content type: %w", err)
	}
	parts := multipart.NewReader(m.Body, params["boundary"])
	for {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read mail: %s has no HTML part", path)
		}
		if err != nil {
			return nil, fmt.Errorf("read part: %w", err)
		}
		if strings.HasPrefix(part.Header.Get("Content-Type"), "text/html") {
			return io.ReadAll(quotedprintable.NewReader(part))
		}
	}
}
