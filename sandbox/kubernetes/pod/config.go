package pod

import (
	"errors"
	"fmt"
	"time"

	"github.com/proctor-project/proctor/sandbox/chain"
)

// Config is what a chain does not say.
type Config struct {
	Name      string
	Namespace string // "" is the client's
	Image     string // Proctor's own, by the name that nodes know it
	Secret    string // holds epoch-1.key, and chain.json after a rotation
	Claim     string // a PersistentVolumeClaim with the product; "" where a launcher brings it
	Doors     string // the Secret with what serve's doors need: service-NAME, and roots.pem
	Network   Network
	Keep      Keep
	Labels    map[string]string
	// Deadline is of the whole Pod; zero adds up the steps' own.
	Deadline time.Duration
	// RuntimeClass is the Pod's; "" is the cluster's default.
	RuntimeClass string
	// Users says whose ids the Pod's are.
	Users Users
}

// Keep names claims for what outlives the Pod; "" is an emptyDir, which does not.
type Keep struct{ Ledger, Seals, Stage string }

// Network says who may be where serve is. The zero value refuses doors.
type Network int

const (
	// ClosedNetwork leads nowhere.
	ClosedNetwork Network = iota
	// SharedNetwork is what the operator waived: where serve's doors lead, the agent
	// gets past them.
	SharedNetwork
)

// Users says how a Pod's ids relate to the node's. The zero value takes what
// every node has.
type Users int

const (
	// NodeUsers are the node's: 64001 there is 64001 here.
	NodeUsers Users = iota
	// OwnUsers are a user namespace of the Pod's own (hostUsers: false).
	OwnUsers
)

func (c Config) validate(s chain.Session) error {
	var errs []error
	for what, value := range map[string]string{"a name": c.Name, "an image of Proctor's": c.Image, "a Secret with the root key": c.Secret} {
		if value == "" {
			errs = append(errs, fmt.Errorf("a Pod needs %s", what))
		}
	}
	if (c.Claim == "") == (s.Launched == nil) {
		errs = append(errs, errors.New("a Pod needs one source of the product: a claim, or a launcher"))
	}
	if s.Doors && c.Network == SharedNetwork && c.Doors == "" {
		errs = append(errs, errors.New("a Pod with doors needs a Secret for what serve is given for them"))
	}
	if s.Agent.Runtime != "" {
		errs = append(errs, fmt.Errorf("runtime %q: a Pod has one runtime for all of its containers: name a RuntimeClass", s.Agent.Runtime))
	}
	return errors.Join(errs...)
}
