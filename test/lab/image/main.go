// Command image packs a folder into an OCI image archive of one layer, as
// `ctr images import` reads it. The same folder gives the same bytes, so an
// image's digest changes only with what is in it.
package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

const usage = "usage: image -tag NAME:TAG -root DIR -entry PATH [-env KEY=VALUE]... -o FILE"

// spec is what the command line asks for.
type spec struct {
	tag, root, entry, out string
	env                   []string
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1) //nolint:forbidigo // a program ends with a code
	}
}

func run(args []string) error {
	var s spec
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.StringVar(&s.tag, "tag", "", "name and tag")
	flags.StringVar(&s.root, "root", "", "folder that becomes the image's /")
	flags.StringVar(&s.entry, "entry", "", "program to run, a path in the image")
	flags.StringVar(&s.out, "o", "", "archive to write")
	flags.Func("env", "KEY=VALUE, may be repeated", func(v string) error {
		s.env = append(s.env, v)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if s.tag == "" || s.root == "" || s.entry == "" || s.out == "" || flags.NArg() > 0 {
		return errors.New(usage)
	}
	return s.build()
}

// blob is one part of the image, known by its digest.
type blob struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

func (b blob) path() string { return "blobs/sha256/" + strings.TrimPrefix(b.Digest, "sha256:") }

func (s spec) build() (err error) {
	layerFile, err := os.CreateTemp(filepath.Dir(s.out), "layer-*")
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, layerFile.Close(), os.Remove(layerFile.Name()))
	}()
	sum := sha256.New()
	if err := writeLayer(io.MultiWriter(layerFile, sum), s.root); err != nil {
		return err
	}
	size, err := layerFile.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	layer := blob{MediaType: "application/vnd.oci.image.layer.v1.tar", Digest: digest(sum.Sum(nil)), Size: size}
	if _, err := layerFile.Seek(0, io.SeekStart); err != nil {
		return err
	}

	config, configJSON, err := document("application/vnd.oci.image.config.v1+json", map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{layer.Digest}},
		// A number, since there is no passwd file to look a name up in.
		"config": map[string]any{"User": "65532:65532", "WorkingDir": "/", "Entrypoint": []string{s.entry}, "Env": s.env},
	})
	if err != nil {
		return err
	}
	manifest, manifestJSON, err := document("application/vnd.oci.image.manifest.v1+json", map[string]any{
		"schemaVersion": 2,
		"mediaType":     "application/vnd.oci.image.manifest.v1+json",
		"config":        config,
		"layers":        []blob{layer},
	})
	if err != nil {
		return err
	}
	manifest.Annotations = map[string]string{"io.containerd.image.name": s.tag}
	_, index, err := document("", map[string]any{"schemaVersion": 2, "manifests": []blob{manifest}})
	if err != nil {
		return err
	}
	return writeArchive(s.out, []entry{
		{"oci-layout", strings.NewReader(`{"imageLayoutVersion":"1.0.0"}`), 30},
		{"index.json", bytes.NewReader(index), int64(len(index))},
		{manifest.path(), bytes.NewReader(manifestJSON), manifest.Size},
		{config.path(), bytes.NewReader(configJSON), config.Size},
		{layer.path(), layerFile, layer.Size},
	})
}

func digest(sum []byte) string { return "sha256:" + hex.EncodeToString(sum) }

func document(mediaType string, v any) (blob, []byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return blob{}, nil, err
	}
	sum := sha256.Sum256(text)
	return blob{MediaType: mediaType, Digest: digest(sum[:]), Size: int64(len(text))}, text, nil
}

// writeLayer writes a folder as root's, without times. Every image gets a /tmp
// that anyone may write to.
func writeLayer(w io.Writer, root string) error {
	tw := tar.NewWriter(w)
	if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}); err != nil {
		return err
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil || name == "." {
			return err
		}
		return addFile(tw, path, filepath.ToSlash(name), d)
	})
	return errors.Join(err, tw.Close())
}

func addFile(tw *tar.Writer, path, name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	target := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if target, err = os.Readlink(path); err != nil {
			return err
		}
	}
	from, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	header := &tar.Header{Typeflag: from.Typeflag, Name: name, Linkname: target, Size: from.Size, Mode: from.Mode}
	if d.IsDir() {
		header.Name += "/"
	}
	if err := tw.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(tw, f)
	return errors.Join(err, f.Close())
}

type entry struct {
	name string
	from io.Reader
	size int64
}

func writeArchive(path string, entries []entry) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	tw := tar.NewWriter(f)
	for _, e := range entries {
		if err == nil {
			err = tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: e.name, Size: e.size, Mode: 0o644})
		}
		if err == nil {
			_, err = io.Copy(tw, e.from)
		}
	}
	return errors.Join(err, tw.Close(), f.Close())
}
