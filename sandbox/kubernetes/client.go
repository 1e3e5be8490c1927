package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/proctor-project/proctor/sandbox"
)

// Name is the engine's name.
const Name = "kubernetes"

// Config says which cluster, and whose.
type Config struct {
	// Context and Namespace of the kubeconfig that client-go's rules find; "" is
	// the current one.
	Context   string
	Namespace string
	// Image is the supervisor's, by a reference that the nodes know.
	Image string
	// Place marks this home's Pods among others of the namespace.
	Place string
	Crash sandbox.Crash
}

// Client talks to one namespace of one cluster.
type Client struct {
	cfg       Config
	rest      *rest.Config
	core      *rest.RESTClient
	params    runtime.ParameterCodec
	namespace string
}

// New reads the kubeconfig. It connects to nothing yet.
func New(cfg Config) (*Client, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	over := &clientcmd.ConfigOverrides{CurrentContext: cfg.Context}
	over.Context.Namespace = cfg.Namespace
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, over)
	restCfg, err := loader.ClientConfig()
	if err != nil {
		return nil, &sandbox.UnavailableError{Engine: Name, Reason: err.Error(), Remedy: "set KUBECONFIG, or name another one with --context"}
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return newClient(cfg, restCfg, namespace)
}

func newClient(cfg Config, restCfg *rest.Config, namespace string) (*Client, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	restCfg.GroupVersion, restCfg.APIPath = &corev1.SchemeGroupVersion, "/api"
	restCfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	// JSON, so that fields which this program does not know are seen.
	restCfg.ContentType, restCfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	restCfg.UserAgent = "proctor"
	restCfg.QPS, restCfg.Burst = 50, 100
	core, err := rest.RESTClientFor(restCfg)
	if err != nil {
		return nil, err
	}
	return &Client{cfg: cfg, rest: restCfg, core: core, params: runtime.NewParameterCodec(scheme), namespace: namespace}, nil
}

// Namespace is where the Pods are made.
func (c *Client) Namespace() string { return c.namespace }

// explain says which right is missing, where one is.
func (c *Client) explain(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		return &sandbox.UnavailableError{
			Engine: Name, Reason: fmt.Sprintf("%s in namespace %s: %v", doing, c.namespace, err),
			Remedy: "kubectl apply -k deploy/kubernetes/launcher, and run as its service account",
		}
	case apierrors.IsUnauthorized(err):
		return &sandbox.UnavailableError{Engine: Name, Reason: fmt.Sprintf("%s: the API server does not know these credentials", doing), Remedy: "kubectl auth whoami"}
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// rawOf is an answer's bytes, or what the API server says instead.
func rawOf(r rest.Result) ([]byte, error) {
	raw, err := r.Raw()
	if err != nil {
		err = r.Error()
	}
	return raw, err
}

// version asks the API server what it is.
func (c *Client) version(ctx context.Context) (string, error) {
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	raw, err := c.core.Get().AbsPath("/version").DoRaw(ctx)
	if err == nil {
		err = parseJSON(raw, &v)
	}
	var status *apierrors.StatusError
	if err != nil && !errors.As(err, &status) {
		return "", &sandbox.UnavailableError{Engine: Name, Reason: err.Error(), Remedy: "kubectl version"}
	}
	return v.GitVersion, c.explain("ask for the version", err)
}

func notFound(err error) bool {
	var status *apierrors.StatusError
	return errors.As(err, &status) && status.ErrStatus.Code == http.StatusNotFound
}
