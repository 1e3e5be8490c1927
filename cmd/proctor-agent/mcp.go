package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/sandbox/inside"
	"github.com/proctor-project/proctor/sandbox/inside/mcpserver"
)

func newMCPCommand(stdin *os.File, stdout io.Writer) *cobra.Command {
	socket := inside.SocketPath
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve the Model Context Protocol on standard input and output: tools that ask the supervisor",
		Long: `For agents that speak MCP: {"command": "proctor-agent", "args": ["mcp"]}. The tools are session,
decide_file, request_file, request_package, request_host, wait and requests. None of them can
approve anything.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return mcpserver.Run(cmd.Context(), socket, stdin, nopWriteCloser{stdout})
		},
	}
	cmd.Flags().StringVar(&socket, "supervisor", socket, "the supervisor's socket")
	return cmd
}

type nopWriteCloser struct{ io.Writer }

func (nopWriteCloser) Close() error { return nil }
