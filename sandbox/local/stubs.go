package local

import (
	"context"
	"errors"

	"github.com/proctor-project/proctor/sandbox"
)

var errNotYet = errors.New("engine local: not written yet")

func (e *Engine) Probe(ctx context.Context, runtime string) (sandbox.Info, error) {
	return sandbox.Info{}, errNotYet
}
func (e *Engine) Resolve(ctx context.Context, img sandbox.Image) (sandbox.Image, error) {
	return sandbox.Image{}, errNotYet
}
func (e *Engine) Create(ctx context.Context, spec sandbox.Spec, streams sandbox.Streams) (sandbox.Container, error) {
	return nil, errNotYet
}
func (e *Engine) Users(ctx context.Context, hostDir string) ([]string, error) { return nil, errNotYet }
func (e *Engine) Sweep(ctx context.Context, session string) ([]string, error) { return nil, errNotYet }
