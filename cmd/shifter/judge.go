package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/spf13/cobra"

	"github.com/shifter-dev/shifter/internal/analysis"
)

// exitInconclusive is neither a pass nor a fail, as a held release is.
const exitInconclusive = 4

// maxInput bounds what shifter judge reads.
const maxInput = 64 << 20

// judgement is what shifter judge prints. An e-value beyond the numbers of JSON
// is null, and its logarithm says it.
type judgement struct {
	Verdict         analysis.Outcome `json:"verdict"`
	Reason          analysis.Reason  `json:"reason"`
	Material        bool             `json:"material"`
	FailEvidence    *float64         `json:"failEvidence"`
	FailEvidenceLog float64          `json:"failEvidenceLog"`
	PassEvidence    *float64         `json:"passEvidence"`
	PassEvidenceLog *float64         `json:"passEvidenceLog"`
	// Recorded and Agrees are there when a record was judged again.
	Recorded    *recorded `json:"recorded,omitempty"`
	Agrees      *bool     `json:"agrees,omitempty"`
	Differences []string  `json:"differences,omitempty"`
}

type recorded struct {
	Verdict string `json:"verdict"`
	Reason  string `json:"reason"`
}

func newJudge() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "judge",
		Short: "Judge recorded windows offline, or a recorded verdict once more",
		Long: `Judge recorded windows offline, or a recorded verdict once more, and print JSON.

The input holds windows of counts, and settings, of which each may be left out:

  {"settings": {"alpha": 0.01, "alphaPass": 0.05, "maxErrorRateDelta": 0.005,
    "maxErrorRateRatio": 1.5, "mode": "both", "minRequests": 300,
    "minBaselineRequests": 100, "stepMargin": 0.005, "dispersion": 1,
    "toleranceGuarantee": 0},
   "windows": [{"candidate": {"requests": 10000, "bad": 200},
    "baseline": {"requests": 90000, "bad": 1800}}]}

or a verdict as a release's status.gate shows it. The windows are taken as they
are: the least number of scrapes, the soak and the safety limit do not apply.

It exits with 0 for a pass, 1 for a fail, 4 for neither, and 2 for bad input.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			body, err := readInput(file, cmd.InOrStdin())
			if err != nil {
				return exitError{exitUsage, err}
			}
			j, err := judge(body)
			if err != nil {
				return exitError{exitUsage, fmt.Errorf("%s: %w", inputName(file), err)}
			}
			enc := json.NewEncoder(cmd.OutOrStdout())
			enc.SetIndent("", "  ")
			if err := enc.Encode(j); err != nil {
				return err
			}
			return j.exit()
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "file to judge, - for standard input")
	return cmd
}

func inputName(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

// readInput reads a file, or standard input for "-".
func readInput(file string, stdin io.Reader) ([]byte, error) {
	if file == "" {
		return nil, errors.New("nothing to judge: use -f FILE, or -f - for standard input")
	}
	in := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("--file: %w", err)
		}
		defer f.Close()
		in = f
	}
	body, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", inputName(file), err)
	case len(body) > maxInput:
		return nil, fmt.Errorf("%s is larger than %d MiB", inputName(file), maxInput>>20)
	}
	return body, nil
}

// judge answers for one input.
func judge(body []byte) (judgement, error) {
	in, err := readJudgeInput(body)
	if err != nil {
		return judgement{}, err
	}
	s, f, err := in.settings()
	if err != nil {
		return judgement{}, err
	}
	if in.Record == nil {
		v := analysis.JudgeRecorded(s, f, in.windows())
		return say(v, v.Outcome, v.Reason), nil
	}
	v, s := in.Record.verdict(s)
	if in.Settings != nil {
		take(&s.MaxErrorRate, in.Settings.MaxErrorRate)
	}
	outcome, reason := v.Again(s)
	j := say(v, outcome, reason)
	j.Recorded = &recorded{in.Record.Outcome, in.Record.Reason}
	j.Differences = in.Record.differences()
	agrees := outcome == v.Outcome && reason == v.Reason && len(j.Differences) == 0
	j.Agrees = &agrees
	return j, nil
}

func say(v analysis.Verdict, o analysis.Outcome, why analysis.Reason) judgement {
	j := judgement{
		Verdict: o, Reason: why, Material: v.Material,
		FailEvidence: number(v.LogFailRaw), FailEvidenceLog: v.LogFailRaw,
	}
	if v.LogPassAt > 0 { // at 100 there is nothing to prove
		j.PassEvidence, j.PassEvidenceLog = number(v.LogPass), &v.LogPass
	}
	return j
}

// number is the number of a logarithm; null beyond the range.
func number(log float64) *float64 {
	v := math.Exp(log)
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return nil
	}
	return &v
}

func (j judgement) exit() error {
	switch j.Verdict {
	case analysis.Pass:
		return nil
	case analysis.Fail:
		return exitError{code: exitFailed}
	case analysis.Inconclusive:
	}
	return exitError{code: exitInconclusive}
}
