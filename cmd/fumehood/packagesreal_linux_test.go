package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// realArchives is the variable that names a folder of wheels and of archives of npm, which scripts/python-packages.sh
// fills.
const realArchives = "PACKAGETEST_ARCHIVES"

// usesMany is a script as models write it. It uses packages only, without a network.
const usesMany = `
import io, socket
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import requests
import yaml
from bs4 import BeautifulSoup
from PIL import Image

frame = pd.DataFrame({"x": np.arange(5), "y": np.arange(5) ** 2})
frame.plot(x="x", y="y")
picture = io.BytesIO()
plt.savefig(picture)
picture.seek(0)
print(int(frame.y.sum()), Image.open(picture).format, BeautifulSoup("<p>text</p>", "html.parser").p.text, yaml.safe_load("a: [1]"))
try:
    requests.get("http://index.test/simple/", timeout=5)
except requests.exceptions.ConnectionError:
    print("no network")
`

const usesNPM = `
import _ from 'lodash'
import { z } from 'zod'
const fetched = await fetch('http://index.test/').then(() => 'network', () => 'no network')
console.log(_.chunk([1, 2, 3], 2).length, z.object({ a: z.number() }).parse({ a: 42 }).a, fetched)
`

// realIndex calls do on each backend, with an index of the real archives.
func realIndex(t *testing.T, do func(*index)) {
	folder := os.Getenv(realArchives)
	if folder == "" {
		t.Skip("SKIPPED, NOT TESTED: " + realArchives +
			" names no archives; make check ONLY=python-packages fetches them")
	}
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(files) == 0 {
		t.Fatal("there are no archives", err)
	}
	onBackends(t, pipFile, func(i *index) {
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				i.t.Fatal(err)
			}
			base := filepath.Base(file)
			if name, isNPM := strings.CutSuffix(base, ".tgz"); isNPM {
				at := strings.LastIndex(name, "-")
				i.npm(map[string]any{"name": name[:at], "version": name[at+1:]}, content)
				continue
			}
			i.put("/archives/"+base, content)
			i.link(strings.ToLower(strings.ReplaceAll(strings.Split(base, "-")[0], "_", "-")), "/archives/"+base)
		}
		do(i)
	})
}

// TestRealPackages: common packages are found, installed from real archives on every backend, and used without a
// network.
func TestRealPackages(t *testing.T) {
	realIndex(t, func(i *index) {
		cache := i.t.TempDir()
		for range 2 {
			if out, errs := i.run(cache, 0, "run", "--packages", "auto", "--memory", "1GiB", "--timeout", "2m", "-c",
				usesMany); out != "30 PNG text {'a': [1]}\nno network\n" {
				i.t.Errorf("%q, %s", out, errs)
			}
			if out, errs := i.run(cache, 0, "run", "-l", "js", "--packages", "auto", "-c",
				usesNPM); out != "2 42 no network\n" {
				i.t.Errorf("%q, %s", out, errs)
			}
		}
		if n := i.downloads("numpy"); n != 1 {
			i.t.Errorf("numpy was downloaded %d times", n)
		}
	})
}

// TestRealPackagesOfImage: packages are mounted on the root of an image, which has /opt.
func TestRealPackagesOfImage(t *testing.T) {
	const image = "localhost/fumehood-test:latest"
	realIndex(t, func(i *index) {
		if i.backend == "docker" || i.backend == "podman" { // TestRealPackages uses this image there
			return
		}
		var out bytes.Buffer
		m := testApp(i.t).Main // with a home and a store of images
		m.Stdout, m.Gate = &out, i.gate
		run := append([]string{"run", "--backend", i.backend, "--package-cache", i.t.TempDir()}, i.flags...)
		run = append(run, "--image", image, "--packages", "pyyaml", "-c", "import yaml; print(yaml.safe_load('a: [1]'))")
		for _, args := range [][]string{{"image", "import", "docker:" + image}, run} {
			out.Reset()
			if code := m.Run(i.t.Context(), args); code != 0 {
				i.t.Fatalf("%q: exit code %d", args, code)
			}
		}
		if out.String() != "{'a': [1]}\n" {
			i.t.Errorf("%q", out.String())
		}
	})
}
