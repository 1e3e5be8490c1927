package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/trust"
	"github.com/proctor-project/proctor/sidecar/wire"
)

func newTrustExportCommand(a *app, engine *string) *cobra.Command {
	return &cobra.Command{
		Use:   "export",
		Short: "Print every record as plain JSON, for proctor trust import",
		Example: `  proctor trust export > trust.json
  proctor trust export --engine docker > trust.json`,
		Annotations: schema("version 1 of the exchange form"),
		Args:        cobra.NoArgs,
		RunE:        func(cmd *cobra.Command, _ []string) error { return a.trustExport(cmd.Context(), *engine) },
	}
}

func (a *app) trustExport(ctx context.Context, engine string) error {
	reply, err := a.trustAll(ctx, engine)
	if err != nil {
		return err
	}
	x := trust.Exchange{Version: trust.ExchangeVersion, Records: []trust.ExchangeRecord{}}
	for _, r := range reply.Records {
		x.Records = append(x.Records, trust.ExchangeRecord{
			AbsolutePath: r.Path.Path, AbsolutePathBase64: r.Path.Base64, ContentSHA256: r.SHA256,
			Scope: r.Scope, Decision: r.Decision, RecordedAt: r.Recorded,
		})
	}
	a.printJSON(x)
	return nil
}

func newTrustImportCommand(a *app, engine *string) *cobra.Command {
	replace := false
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Enter the records of an exchange file, all or none",
		Long: `Enters every record of FILE ("-" is standard input) as an act of the operator's own. One bad
record refuses the file. A path that has another record already refuses it, too, unless
--replace says that the file is right.`,
		Example: `  proctor trust import trust.json
  proctor trust import --replace trust.json`,
		Annotations: schema("proctor/trust/v1"),
		Args:        cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.trustImport(cmd.Context(), *engine, args[0], replace)
		},
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "replace records that say something else")
	return cmd
}

func (a *app) trustImport(ctx context.Context, engine, file string, replace bool) error {
	data, err := a.readExchange(file)
	if err != nil {
		return err
	}
	t, err := a.openTrust(ctx, engine, "")
	if err != nil {
		return err
	}
	defer func() { _ = t.close() }()
	reply, err := t.launcher.Trust(ctx, wire.TrustRequest{
		Schema: "proctor/trust/v1", Act: "import", By: hostUser(), Replace: replace,
	}, bytes.NewReader(data))
	if err != nil {
		return about(file, err)
	}
	if a.asJSON {
		a.printTrust("imported", reply)
		return nil
	}
	_, _ = fmt.Fprintf(a.out, "imported %s; %d were there already\n", display.Plural(int64(len(reply.Records)), "record"), reply.Skipped)
	a.complain("hint: " + a.pasteable("proctor trust list"))
	return nil
}

func (a *app) readExchange(file string) ([]byte, error) {
	in := io.Reader(a.in)
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	data, err := readAtMost(in, trust.MaxExchange)
	if err != nil {
		return nil, about(file, err)
	}
	return data, nil
}
