package kubetest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"time"
)

// node is the address of the only node: Pods reach it, and it is no Pod's.
const node = "10.117.0.1"

// Serve starts a server on the node.
func (c *Cluster) Serve(answer http.HandlerFunc) *httptest.Server {
	c.Helper()
	s := c.server(answer)
	s.Start()
	return s
}

// ServeTLS starts one that proves itself by the certificate that it returns.
func (c *Cluster) ServeTLS(answer http.HandlerFunc) (*httptest.Server, []byte) {
	c.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.ParseIP(node)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		c.Fatal(err)
	}
	s := c.server(answer)
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s.StartTLS()
	var roots bytes.Buffer
	if err := pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
		c.Fatal(err)
	}
	return s, roots.Bytes()
}

func (c *Cluster) server(answer http.HandlerFunc) *httptest.Server {
	c.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(node, "0"))
	if err != nil {
		c.Fatal(err)
	}
	s := httptest.NewUnstartedServer(answer)
	if err := s.Listener.Close(); err != nil {
		c.Fatal(err)
	}
	s.Listener = l
	c.Cleanup(s.Close)
	return s
}
