package template

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/moby/buildkit/frontend/dockerfile/shell"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits of the variables of a build. References multiply text: forty lines such as ENV A=$A$A would need a terabyte.
const (
	maxVariables  = 1000
	maxValue      = 128 << 10 // bytes of one, with its name: more than a program can get (MAX_ARG_STRLEN, execve(2))
	maxAll        = 1 << 20   // bytes of all
	maxBraces     = 100       // ${ in one word: buildkit's lexer recurses at each, and Go's stack has an end
	maxFileBraces = 10_000    // in a Dockerfile
	maxExpansion  = 32 << 20  // bytes that one word may become, by an estimate
	maxWords      = 1000      // of one instruction
	textWork      = 1 << 6    // bytes that cost as much as one variable, which counts 1
)

// replacement matches ${NAME/PATTERN/TEXT}, which repeats its text.
var replacement = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\$\{\w+/`)
})

// argValue returns the value of an ARG: the given one, or its default, or that of the same name before the first FROM.
func (b *build) argValue(p pair, st *state) (string, error) {
	b.used[p.name] = true
	if value, ok := b.want.Args[p.name]; ok {
		return value, nil
	}
	if !p.isSet {
		for _, a := range b.recipe.args {
			if a.name == p.name && a.isSet {
				return b.expand(st, a.value)
			}
		}
	}
	return b.expand(st, p.value)
}

// set sets a variable in a list.
func set(list []string, name, value string) []string {
	i := slices.IndexFunc(list, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
	if i < 0 {
		return append(list, name+"="+value)
	}
	list[i] = name + "=" + value
	return list
}

// checkVariables bounds the variables of a stage.
func (b *build) checkVariables(st *state) error {
	count, bytes := len(st.args)+len(st.config.Env), 0
	for _, list := range [][]string{st.args, st.config.Env} {
		for _, kv := range list {
			bytes += len(kv)
			if len(kv) > maxValue {
				return tooLarge("the value of a variable is over the limit of 128KiB")
			}
		}
	}
	if count > maxVariables || bytes > maxAll {
		return tooLarge("it has more than 1000 variables, or more than 1MiB of them")
	}
	return b.spend(int64(count))
}

func tooLarge(msg string) error {
	return &sandbox.Error{Kind: sandbox.TooLarge, Op: "template", Msg: msg}
}

// spend counts and charges work, and refuses more than a build may have.
func (b *build) spend(work int64) error {
	err := b.bound(work)
	if err == nil {
		b.charge(work)
	}
	return err
}

// bound counts work, and refuses more than a build may have.
func (b *build) bound(work int64) error {
	if b.work += work; b.MaxWork > 0 && b.work > b.MaxWork {
		return tooLarge("it takes the server too much work: too many files, patterns or variables")
	}
	return nil
}

// workTime is the CPU time of one unit of work.
const workTime = 100 * time.Nanosecond

// charge reports work to the caller of the build.
func (b *build) charge(work int64) {
	if b.want.Charge != nil {
		b.want.Charge(time.Duration(work) * workTime)
	}
}

// charged is a writer that charges a build for bytes that it hashes.
type charged struct {
	io.Writer
	build *build
}

func (c charged) Write(p []byte) (int, error) {
	c.build.charge(int64(len(p)) / hashedBytes)
	return c.Writer.Write(p)
}

// expander returns what replaces variables in words. ENV wins over ARG.
func (b *build) expander(st *state) (expand func(word string) (string, error), err error) {
	env := slices.Concat(st.args, st.config.Env)
	longest := 0
	for _, kv := range env {
		longest = max(longest, len(kv))
	}
	values := shell.EnvsFromSlice(env)
	return func(word string) (string, error) {
		if strings.Count(word, "${") > maxBraces {
			return "", tooLarge("a word has more than 100 references ${")
		}
		size := len(word) + strings.Count(word, "$")*longest
		if replacement().MatchString(word) {
			size *= max(size, 1)
		}
		if size > maxExpansion {
			return "", tooLarge("the variables of a word are too long")
		}
		if err := b.spend(int64(size / textWork)); err != nil {
			return "", err
		}
		out, _, err := b.lex.ProcessWord(word, values)
		if err != nil {
			return "", sandbox.Invalidf("Dockerfile", "%.200q: %v", word, err)
		}
		if len(out) > maxAll {
			return "", tooLarge("the variables of a word are too long")
		}
		return out, nil
	}, b.spend(int64(len(env)))
}

// expand replaces variables in one word.
func (b *build) expand(st *state, word string) (string, error) {
	expand, err := b.expander(st)
	if err != nil {
		return "", err
	}
	return expand(word)
}

// expandAll replaces the variables of an instruction. Commands are left to their shell.
func (b *build) expandAll(st *state, i *instruction) error {
	var words []*string
	switch i.kind {
	case kindEnv:
		i.pairs = slices.Clone(i.pairs)
		for n := range i.pairs {
			words = append(words, &i.pairs[n].value)
		}
	case kindWorkdir, kindUser:
		i.words = slices.Clone(i.words)
		words = append(words, &i.words[0])
	case kindCopy, kindAdd:
		c := &i.copies
		c.sources, c.inline = slices.Clone(c.sources), slices.Clone(c.inline)
		words = append(words, &c.to, &c.owner, &c.mode)
		for n := range c.sources {
			words = append(words, &c.sources[n])
		}
		for n := range c.inline {
			if c.inline[n].expand {
				words = append(words, &c.inline[n].content)
			}
		}
	}
	expand, err := b.expander(st)
	if err != nil {
		return err
	}
	values := make([]string, len(words))
	for n, word := range words { // all with the variables from before the instruction
		var err error
		if values[n], err = expand(*word); err != nil {
			return err
		}
	}
	for n, word := range words {
		*word = values[n]
	}
	return nil
}
