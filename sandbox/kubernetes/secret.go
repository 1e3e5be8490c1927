package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proctor-project/proctor/sandbox/kubernetes/pod"
)

// CreateSecret gives the namespace a key. One that is there is never replaced.
func (c *Client) CreateSecret(ctx context.Context, name string, files map[string][]byte) error {
	yes := true
	body, err := json.Marshal(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{pod.LabelManaged: "proctor"}},
		Immutable:  &yes, Data: files, Type: corev1.SecretTypeOpaque,
	})
	if err != nil {
		return err
	}
	err = c.core.Post().Namespace(c.namespace).Resource("secrets").Body(body).SetHeader("Content-Type", "application/json").Do(ctx).Error()
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("namespace %s has a Secret %s already: proctor init --join uses it", c.namespace, name)
	}
	return c.explain("make the Secret "+name, err)
}
