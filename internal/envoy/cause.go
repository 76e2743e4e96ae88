package envoy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
)

// cause tells what kind of outage an error of net/http is, and gives a cause that
// is safe to print. Errors of net/http quote addresses and pieces of replies,
// so nothing of their text is passed on: only causes from a closed list are.
func cause(err error, a attempt) (OutageKind, error) {
	switch {
	case errors.Is(err, errTooLarge):
		return OutageTooLarge, errTooLarge
	case a.late:
		return OutageTimeout, context.DeadlineExceeded
	}
	var none *unreached
	if errors.As(err, &none) {
		return OutageDial, dialCause(err)
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "malformed"), strings.Contains(text, "invalid header"):
		return OutageMalformed, errors.New("no HTTP response")
	case strings.Contains(text, "headers exceeded"):
		return OutageTooLarge, errors.New("response headers are too large")
	}
	return OutageReset, resetCause(err, text)
}

func dialCause(err error) error {
	var (
		dns       *net.DNSError
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		verify    *tls.CertificateVerificationError
		record    tls.RecordHeaderError
		alert     tls.AlertError
	)
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return errors.New("look up host: no such host")
	case errors.As(err, &dns):
		return errors.New("look up host: no answer")
	case errors.As(err, &authority):
		return errors.New("verify certificate: unknown authority")
	case errors.As(err, &hostname):
		return errors.New("verify certificate: made out to another name")
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return errors.New("verify certificate: expired or not yet valid")
	case errors.As(err, &verify):
		return errors.New("verify certificate: not valid")
	case errors.As(err, &record):
		return errors.New("shake hands: the far side does not speak TLS")
	case errors.As(err, &alert):
		return errors.New("shake hands: the far side refused")
	}
	return resetCause(err, err.Error())
}

// resetCause keeps system errors and ends of file as they are, so that
// errors.Is finds them.
func resetCause(err error, text string) error {
	var (
		errno syscall.Errno
		slow  net.Error
	)
	switch {
	case errors.As(err, &errno):
		return errno
	case errors.Is(err, io.ErrUnexpectedEOF):
		return io.ErrUnexpectedEOF
	case errors.Is(err, io.EOF):
		return io.EOF
	case errors.Is(err, net.ErrClosed):
		return net.ErrClosed
	case errors.As(err, &slow) && slow.Timeout():
		return errors.New("no answer in time")
	case strings.Contains(text, "GOAWAY"), strings.Contains(text, "server closed idle connection"):
		return errors.New("the far side closed the connection")
	case strings.Contains(text, "stream error"), strings.Contains(text, "cannot retry"):
		return errors.New("the far side reset the stream")
	case strings.Contains(text, "client connection lost"):
		return errors.New("the connection is dead")
	}
	return errors.New("the connection broke")
}
