package keys

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
)

const redacted = "[redacted]"

// Secret holds key bytes. It never shows them: they sit behind a function, so
// that formatting by reflection finds only its address.
type Secret struct {
	reveal func() []byte
}

// NewSecret takes the bytes over.
func NewSecret(b []byte) Secret { return Secret{reveal: func() []byte { return b }} }

// Reveal returns the bytes, not a copy; nil for the zero value.
func (s Secret) Reveal() []byte {
	if s.reveal == nil {
		return nil
	}
	return s.reveal()
}

// String, Format, LogValue and the Marshal methods redact.
func (s Secret) String() string { return redacted }

// Format writes the same for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue is what slog writes.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON refuses: a secret in a document is a mistake.
func (s Secret) MarshalJSON() ([]byte, error) { return nil, errMarshalSecret }

// MarshalText refuses as well.
func (s Secret) MarshalText() ([]byte, error) { return nil, errMarshalSecret }

var errMarshalSecret = errors.New("a secret cannot be marshalled")
