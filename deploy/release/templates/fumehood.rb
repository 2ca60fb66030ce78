class Fumehood < Formula
  desc "Runs untrusted code in sandboxes"
  homepage "https://github.com/fumehood-dev/fumehood"
  version "{{.Number}}"
  license "Apache-2.0"
{{- range $system, $name := .Systems}}

  on_{{$name}} do
{{- range $.Processors}}
{{- $target := printf "%s-%s" $system .}}
{{- if sum $target}}
    on_{{if eq . "amd64"}}intel{{else}}arm{{end}} do
      url "{{$.URL}}/fumehood-{{$.Version}}-{{$target}}.tar.gz"
      sha256 "{{sum $target}}"
    end
{{- end}}
{{- end}}
  end
{{- end}}

  def install
    bin.install "bin/fumehood"
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/fumehood"
    zsh_completion.install "share/zsh/site-functions/_fumehood"
    fish_completion.install "share/fish/vendor_completions.d/fumehood.fish"
  end

  test do
    assert_match "fumehood", shell_output("#{bin}/fumehood version")
  end
end
