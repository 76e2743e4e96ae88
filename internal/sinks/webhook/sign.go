package webhook

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/heraldbridge/herald/internal/secret"
)

const (
	prefixHMAC    = "whsec_"
	prefixEd25519 = "whsk_"
)

// Sign makes a webhook-signature value after Standard Webhooks: one signature for
// each secret, separated by spaces, over "id.unixtime.body" with the exact bytes of
// the body. See Config.Secrets for the forms of a secret. A secret that has a prefix
// but is no key is an error, which does not repeat it.
func Sign(secrets []secret.Value, id string, at time.Time, body []byte) (string, error) {
	head := []byte(id + "." + strconv.FormatInt(at.Unix(), 10) + ".")
	signatures := make([]string, 0, len(secrets))
	for _, s := range secrets {
		one, err := signOne(s.Reveal(), head, body)
		if err != nil {
			return "", err
		}
		signatures = append(signatures, one)
	}
	return strings.Join(signatures, " "), nil
}

func signOne(text string, head, body []byte) (string, error) {
	if text == "" {
		return "", errors.New("sign: a secret is empty")
	}
	if encoded, ok := strings.CutPrefix(text, prefixEd25519); ok {
		key, err := ed25519Key(encoded)
		if err != nil {
			return "", err
		}
		return "v1a," + base64.StdEncoding.EncodeToString(ed25519.Sign(key, slices.Concat(head, body))), nil
	}
	key := []byte(text)
	if encoded, ok := strings.CutPrefix(text, prefixHMAC); ok {
		var err error
		if key, err = decodeKey(encoded); err != nil {
			return "", err
		}
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(head)
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)), nil
}

// ed25519Key accepts a seed of 32 bytes and a private key of 64, which is the
// seed and the public key.
func ed25519Key(encoded string) (ed25519.PrivateKey, error) {
	raw, err := decodeKey(encoded)
	if err != nil {
		return nil, err
	}
	switch len(raw) {
	case ed25519.SeedSize:
		return ed25519.NewKeyFromSeed(raw), nil
	case ed25519.PrivateKeySize:
		key := ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])
		if !key.Equal(ed25519.PrivateKey(raw)) {
			return nil, errors.New("sign: the halves of a whsk_ key do not belong together")
		}
		return key, nil
	}
	return nil, errors.New("sign: a whsk_ key has neither 32 nor 64 bytes")
}

func decodeKey(encoded string) ([]byte, error) {
	key, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(encoded, "="))
	if err != nil || len(key) == 0 {
		return nil, errors.New("sign: what follows the prefix of a secret is not base64")
	}
	return key, nil
}
