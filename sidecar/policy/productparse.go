package policy

import (
	"go.yaml.in/yaml/v3"

	"github.com/proctor-project/proctor/sidecar/hosts"
)

func (r *reader) product(n *yaml.Node, p *Product) {
	var version int
	r.object(n, "",
		field{"version", required, integer(r, &version, 1, 1)},
		field{"agent", optional, func(n *yaml.Node, at string) {
			r.object(n, at,
				field{"limits", optional, r.limits(&p.limits)},
				field{"output", optional, value(r, &p.output, size(minOutput, maxOutput))},
				field{"timeout", optional, value(r, &p.timeout, duration(minTimeout, maxTimeout))})
		}},
		field{"stage", optional, func(n *yaml.Node, at string) {
			r.object(n, at, field{"exclude", optional, listOf(r, &p.exclude, 0, 1000, ParseGlob)})
		}},
		field{"protected", optional, listOf(r, &p.protected, 0, 1000, ParseGlob)},
		field{"classes", optional, r.classes(&p.classes)},
		field{"audit", optional, r.audit(&p.audit)},
		field{"packages", optional, func(n *yaml.Node, at string) {
			r.object(n, at,
				field{"allow", optional, listOf(r, &p.packages.Allow, 0, 1000, ParseNameGlob)},
				field{"deny", optional, listOf(r, &p.packages.Deny, 0, 1000, ParseNameGlob)})
		}},
		field{"egress", optional, func(n *yaml.Node, at string) {
			r.object(n, at,
				field{"allow", optional, listOf(r, &p.egress.Allow, 0, 1000, hosts.ParsePattern)},
				field{"deny", optional, listOf(r, &p.egress.Deny, 0, 1000, hosts.ParsePattern)})
		}},
	)
}

func (r *reader) classes(c *Classes) decode {
	return func(n *yaml.Node, at string) {
		handling := named(HandleFail, HandleList)
		r.object(n, at,
			field{"review", optional, value(r, &c.Review, handling)},
			field{"tree", optional, value(r, &c.Tree, handling)})
	}
}
