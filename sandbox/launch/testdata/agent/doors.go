package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// doors asks for each URL of its arguments, as METHOD=URL, and says what came:
// by the proxy of its environment, or straight for METHOD=direct and what the
// proxy is not for.
func doors() {
	ready()
	for _, arg := range os.Args[2:] {
		method, address, _ := strings.Cut(arg, "=")
		fmt.Printf("%s: %s\n", arg, fetch(method, address))
	}
}

func fetch(method, address string) string {
	if method == "grep" { // what would hold a secret that reached this container
		b, err := os.ReadFile(address)
		return fmt.Sprintf("%q %v", b, err)
	}
	if method == "until" { // asks again until it is let through
		for range time.Tick(100 * time.Millisecond) {
			if got := fetch("proxy-GET", address); strings.HasPrefix(got, "200") {
				return got
			}
		}
	}
	u, err := url.Parse(address)
	if err != nil {
		return err.Error()
	}
	if method == "direct" {
		c, err := net.DialTimeout("tcp", u.Host, 5*time.Second)
		if err != nil {
			return err.Error()
		}
		_ = c.Close()
		return "connected"
	}
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{Proxy: func(*http.Request) (*url.URL, error) {
		if method == "GET" || method == "POST" { // the door itself
			return nil, nil
		}
		return url.Parse(os.Getenv("HTTP_PROXY"))
	}}}
	verb := strings.TrimPrefix(method, "proxy-")
	req, err := http.NewRequest(verb, address, nil)
	if err != nil {
		return err.Error()
	}
	resp, err := client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	return fmt.Sprintf("%s %q %v %v", resp.Status, body, resp.Header, err)
}
