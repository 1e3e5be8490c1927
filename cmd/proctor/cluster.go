package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/sandbox/home"
	"github.com/proctor-project/proctor/sandbox/kubernetes"
	"github.com/proctor-project/proctor/sandbox/launch"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// clusterOptions say where a cluster has keys and control.
type clusterOptions struct {
	context, namespace, image string
	join                      bool
}

func (o *clusterOptions) add(f *pflag.FlagSet) {
	f.StringVar(&o.context, "context", "", "context of the kubeconfig (default: the current one)")
	f.StringVar(&o.namespace, "namespace", "", "namespace that keys, control and sessions are in (default: the context's)")
	f.StringVar(&o.image, "image", "", "the supervisor's image, by the name that the cluster's nodes know (default: "+imageName+")")
	f.BoolVar(&o.join, "join", false, "use the keys and the ledger that are in the namespace already")
}

func (o *clusterOptions) check(engine string) error {
	if engine != kubernetes.Name && *o != (clusterOptions{}) {
		return &usageError{errors.New("--context, --namespace, --image and --join are for the engine kubernetes")}
	}
	return nil
}

func (o *clusterOptions) into(place *home.Config) {
	if place.Engine != kubernetes.Name {
		return
	}
	place.Context, place.Namespace, place.Image = o.context, o.namespace, o.image
	if place.Image == "" {
		place.Image = imageName
	}
}

// initCluster makes the keys here, where the operator is, and gives each to the
// cluster as the Secret of who needs it; nothing of them stays behind. With join
// somebody did that already.
func (a *app) initCluster(ctx context.Context, h *home.Home, c *kubernetes.Client, cfg launch.Config, place home.Config, join bool, reply *wire.KeysReply) error {
	if join {
		return launch.Join(ctx, cfg, place, reply)
	}
	if err := a.giveKeys(ctx, h, c); err != nil {
		return err
	}
	_, err := launch.Init(ctx, cfg, place, reply)
	if err != nil {
		err = &hintError{err, "kubectl delete secret " + kubernetes.SecretRoot + " " + kubernetes.SecretLedger + ", then proctor init again"}
	}
	return err
}

func (a *app) giveKeys(ctx context.Context, h *home.Home, c *kubernetes.Client) (err error) {
	temp, err := os.MkdirTemp(h.Path("engines"), "keys-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	dirs := map[string]string{kubernetes.SecretRoot: filepath.Join(temp, "root"), kubernetes.SecretLedger: filepath.Join(temp, "ledger")}
	for _, dir := range dirs {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	root, err := keys.CreateRoot(dirs[kubernetes.SecretRoot], keys.Rules{})
	if err != nil {
		return err
	}
	if err := root.WriteLedgerKeys(dirs[kubernetes.SecretLedger], keys.Rules{}); err != nil {
		return err
	}
	for _, name := range []string{kubernetes.SecretRoot, kubernetes.SecretLedger} {
		files, err := readAll(dirs[name])
		if err != nil {
			return err
		}
		if err := c.CreateSecret(ctx, name, files); err != nil {
			return err
		}
	}
	return nil
}

func readAll(dir string) (map[string][]byte, error) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, e := range all {
		if !e.Type().IsRegular() {
			return nil, fmt.Errorf("%s is not a file", e.Name())
		}
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			return nil, err
		}
	}
	return files, nil
}
