// Package compose writes the steps of a chain as a docker compose file: put in
// order by an orchestrator that gives nothing but order.
package compose
