package steps

import (
	"bytes"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sidecar/ledger"
	"github.com/proctor-project/proctor/sidecar/packages"
	"github.com/proctor-project/proctor/sidecar/policy"
	"github.com/proctor-project/proctor/sidecar/seal"
)

// maxJudged bounds an archive that a tree is compared with, in bytes. It is held
// in memory, so that what is read is what was hashed.
const maxJudged = 64 << 20

// judgedPackages answers the audit about packages, by the session's policy and
// the ledger at one moment.
type judgedPackages struct {
	policy   *policy.Policy
	records  packageRecords
	registry string
	cache    string // directory; what it holds is hashed at each read

	last    packages.Identity // whose archive was read last
	archive *packages.Archive
}

func (s *sealing) judgedPackages() *judgedPackages {
	j := &judgedPackages{policy: s.policy, records: packageRecords{s.state, time.Now()}, cache: s.layout.Cache}
	if origin, err := packages.Origin(s.policy.Packages.Registry); err == nil {
		j.registry = origin
	}
	return j
}

// Registry implements audit.Packages.
func (j *judgedPackages) Registry() string { return j.registry }

// Decide implements audit.Packages.
func (j *judgedPackages) Decide(id packages.Identity) packages.Decision {
	return packages.Decide(packages.Question{Spec: id.Spec(), Identity: id, Use: packages.Fetch}, j.policy, j.records)
}

// Archive implements audit.Packages: it reads bytes of the cache only once they
// are known to be those of the identity.
func (j *judgedPackages) Archive(id packages.Identity) (*packages.Archive, bool) {
	if j.last == id {
		return j.archive, j.archive != nil
	}
	j.last, j.archive = id, nil
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(id.Integrity, "sha512-"))
	if err != nil {
		return nil, false
	}
	data, err := cached(j.cache, hex.EncodeToString(sum))
	if err != nil {
		return nil, false // nothing is compared, and so nothing passes
	}
	if have := sha512.Sum512(data); !bytes.Equal(have[:], sum) {
		return nil, false
	}
	if j.archive, err = packages.ReadArchive(bytes.NewReader(data)); err != nil {
		j.archive = nil
	}
	return j.archive, j.archive != nil
}

// cached reads a file of the cache; what it holds is the caller's to verify.
func cached(dir, name string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	f, err := root.OpenFile("sha512/"+name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Size() > maxJudged {
		return nil, errors.New("not an archive that is looked at")
	}
	return io.ReadAll(io.LimitReader(f, maxJudged))
}

// packageApprovals are the acts that the result relies on.
func (s *sealing) packageApprovals() []seal.PackageApproval {
	var all []seal.PackageApproval
	for _, id := range s.result.Packages {
		r, ok := s.state.Package(id.Registry, id.Name, id.Version)
		if !ok {
			continue
		}
		all = append(all, seal.PackageApproval{Registry: id.Registry, Name: id.Name, Version: id.Version, Integrity: id.Integrity, Act: r.Seq})
	}
	return all
}

// packageHolds reports whether an approval that a seal relies on is still the
// live one.
func packageHolds(state *ledger.State, a seal.PackageApproval, now time.Time) bool {
	r, ok := state.Package(a.Registry, a.Name, a.Version)
	return ok && r.Seq == a.Act && state.PackageApproved(a.Registry, a.Name, a.Version, a.Integrity, now)
}
