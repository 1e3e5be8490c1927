package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/proctor-project/proctor/sandbox"
)

// Labels of our Pods. Place and session are how they are found again.
const (
	labelPlace   = "proctor.dev/place"
	labelSession = "proctor.dev/session"
)

// following is one Pod that this launcher made.
type following struct {
	c     *Client
	asked []byte // as it was sent
	name  string
	uid   string

	mu  sync.Mutex
	err error
}

// create makes the Pod, and refuses what the API server made of it if that is
// not what was asked. Nothing is left of a refused one.
func (c *Client) create(ctx context.Context, pod *corev1.Pod) (*following, error) {
	pod.APIVersion, pod.Kind = "v1", "Pod"
	pod.Labels[labelPlace] = c.cfg.Place
	asked, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	f := &following{c: c, asked: asked, name: pod.Name}
	made, err := rawOf(c.core.Post().Namespace(c.namespace).Resource("pods").Body(asked).
		SetHeader("Content-Type", "application/json").Do(ctx))
	if err != nil {
		return nil, c.explain("make the Pod", err)
	}
	// What was made is asked for again: an answer is what the API server says
	// that it stored, and this is what it has.
	have, err := f.get(ctx)
	if err == nil {
		err = f.refuse(made)
	}
	if err == nil {
		err = f.refuse(have.raw)
	}
	if err != nil {
		return nil, errors.Join(err, f.Remove(context.WithoutCancel(ctx)))
	}
	f.uid = string(have.pod.UID)
	return f, nil
}

func (f *following) refuse(got []byte) error {
	all, err := differences(f.asked, got)
	if err != nil {
		return err
	}
	if len(all) > 0 {
		return &sandbox.RefusedError{Container: "Pod " + f.name, Problems: all, Remedy: "look for an admission webhook or policy that changes Pods of this namespace"}
	}
	return nil
}

// stored is a Pod as the API server has it.
type stored struct {
	raw []byte
	pod corev1.Pod
}

func (f *following) get(ctx context.Context) (stored, error) {
	var s stored
	var err error
	s.raw, err = rawOf(f.c.core.Get().Namespace(f.c.namespace).Resource("pods").Name(f.name).Do(ctx))
	if err != nil {
		return s, f.c.explain("read the Pod back", err)
	}
	if err := parseJSON(s.raw, &s.pod); err != nil {
		return s, fmt.Errorf("read the Pod back: %w", err)
	}
	if f.uid != "" && f.uid != string(s.pod.UID) {
		return s, fmt.Errorf("pod %s is another one than was made", f.name)
	}
	return s, nil
}

// Updates implements sandbox.Following. A change of the Pod wakes it up; what it
// tells is what the API server has then.
func (f *following) Updates(ctx context.Context) <-chan sandbox.Progress {
	out := make(chan sandbox.Progress)
	go f.c.cfg.Crash.Guard(func() {
		defer close(out)
		f.fail(f.follow(ctx, out))
	})()
	return out
}

func (f *following) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// Err implements sandbox.Following.
func (f *following) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// watchFor bounds one watch; the next begins with the state of then.
const watchFor = 5 * time.Minute

func (f *following) follow(ctx context.Context, out chan<- sandbox.Progress) error {
	for ctx.Err() == nil {
		have, err := f.get(ctx)
		if err != nil {
			return err
		}
		ended, err := f.tell(ctx, have, out)
		if ended || err != nil {
			return err
		}
		if err := f.watch(ctx, have.pod.ResourceVersion, out); !errors.Is(err, errAgain) {
			return err
		}
	}
	return ctx.Err()
}

// errAgain is the end of a watch that says nothing about the Pod.
var errAgain = errors.New("the watch ended")

func (f *following) watch(ctx context.Context, from string, out chan<- sandbox.Progress) error {
	timeout := int64(watchFor / time.Second)
	w, err := f.c.core.Get().Namespace(f.c.namespace).Resource("pods").
		VersionedParams(&metav1.ListOptions{
			Watch: true, ResourceVersion: from, TimeoutSeconds: &timeout,
			FieldSelector: fields.OneTermEqualSelector("metadata.name", f.name).String(),
		}, f.c.params).Watch(ctx)
	if err != nil {
		return f.c.explain("watch the Pod", err)
	}
	defer w.Stop()
	for range w.ResultChan() {
		have, err := f.get(ctx)
		if err != nil {
			return err
		}
		if ended, err := f.tell(ctx, have, out); ended || err != nil {
			return err
		}
	}
	return errAgain
}

// tell refuses a Pod that is not any more what was asked, at each look at it.
func (f *following) tell(ctx context.Context, have stored, out chan<- sandbox.Progress) (ended bool, err error) {
	p := progressOf(&have.pod)
	select {
	case out <- p:
		return p.Ended, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// Feed implements sandbox.Following.
func (f *following) Feed(ctx context.Context, step string, in io.Reader, out io.Writer) error {
	req := f.c.core.Post().Namespace(f.c.namespace).Resource("pods").Name(f.name).SubResource("attach").
		VersionedParams(&corev1.PodAttachOptions{Container: step, Stdin: in != nil, Stdout: out != nil}, f.c.params)
	exec, err := remotecommand.NewSPDYExecutor(f.c.rest, "POST", req.URL())
	if err != nil {
		return err
	}
	err = exec.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: out})
	return f.c.explain("attach to "+step, err)
}

// Output implements sandbox.Following.
func (f *following) Output(ctx context.Context, step string, w io.Writer) error {
	body, err := f.c.core.Get().Namespace(f.c.namespace).Resource("pods").Name(f.name).SubResource("log").
		VersionedParams(&corev1.PodLogOptions{Container: step, Follow: true}, f.c.params).Stream(ctx)
	if err != nil {
		return f.c.explain("read what "+step+" prints", err)
	}
	defer func() { _ = body.Close() }()
	_, err = io.Copy(w, body)
	return err
}

// Facts implements sandbox.Following.
func (f *following) Facts(ctx context.Context) (sandbox.Facts, error) {
	have, err := f.get(ctx)
	if err != nil {
		return sandbox.Facts{}, err
	}
	all, err := differences(f.asked, have.raw)
	if err != nil {
		return sandbox.Facts{}, err
	}
	facts := factsOf(&have.pod)
	for _, d := range all {
		facts.Problems = append(facts.Problems, "the Pod is not what was asked: "+d)
	}
	return facts, nil
}

// Remove implements sandbox.Following.
func (f *following) Remove(ctx context.Context) error { return f.c.remove(ctx, f.name, f.uid) }

// remove deletes a Pod and waits until the API server has it no more: it forgets
// a Pod when the kubelet has ended its processes.
func (c *Client) remove(ctx context.Context, name, uid string) error {
	grace := int64(1)
	opts := metav1.DeleteOptions{GracePeriodSeconds: &grace}
	if uid != "" {
		opts.Preconditions = metav1.NewUIDPreconditions(uid)
	}
	opts.APIVersion, opts.Kind = "v1", "DeleteOptions"
	body, err := json.Marshal(opts)
	if err != nil {
		return err
	}
	err = c.core.Delete().Namespace(c.namespace).Resource("pods").Name(name).Body(body).
		SetHeader("Content-Type", "application/json").Do(ctx).Error()
	if notFound(err) {
		return nil
	}
	if err != nil {
		return c.explain("remove the Pod", err)
	}
	return c.awaitGone(ctx, name, uid)
}

const lookEvery = 200 * time.Millisecond

func (c *Client) awaitGone(ctx context.Context, name, uid string) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		raw, err := rawOf(c.core.Get().Namespace(c.namespace).Resource("pods").Name(name).Do(ctx))
		if notFound(err) {
			return nil
		}
		var have metav1.PartialObjectMetadata
		if err == nil {
			err = parseJSON(raw, &have)
		}
		if err != nil {
			return c.explain("see that the Pod is gone", err)
		}
		if uid != "" && string(have.UID) != uid {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("pod %s is still there: %w", name, ctx.Err())
		}
	}
}

// Sweep implements sandbox.Engine.
func (c *Client) Sweep(ctx context.Context, session string) ([]string, error) {
	var list metav1.PartialObjectMetadataList
	raw, err := rawOf(c.core.Get().Namespace(c.namespace).Resource("pods").
		VersionedParams(&metav1.ListOptions{LabelSelector: strings.Join([]string{labelPlace + "=" + c.cfg.Place, labelSession + "=" + session}, ",")}, c.params).
		Do(ctx))
	if err == nil {
		err = parseJSON(raw, &list)
	}
	if err != nil {
		return nil, c.explain("look for Pods", err)
	}
	var names []string
	for _, p := range list.Items {
		if err := c.remove(ctx, p.Name, string(p.UID)); err != nil {
			return names, err
		}
		names = append(names, p.Name)
	}
	return names, nil
}
