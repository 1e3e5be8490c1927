// Package compose writes a session as a docker compose file: the same steps as a
// launcher's, put in order by an orchestrator that gives nothing but order.
package compose
