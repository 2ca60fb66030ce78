package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/internal/apiclient"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func (a *app) newInterrupt() *cobra.Command {
	return a.newOfContext("interrupt", "Interrupt what runs in a context; its variables stay", (*apiclient.Client).Interrupt)
}

func (a *app) newRestart() *cobra.Command {
	return a.newOfContext("restart", "Start the interpreter of a context anew, without variables", (*apiclient.Client).Restart)
}

// newOfContext makes a command that does one thing to one context.
func (a *app) newOfContext(name, short string, do func(*apiclient.Client, context.Context, string, string) error) *cobra.Command {
	var f serverFlags
	var of, language string
	cmd := &cobra.Command{
		Use:   name + " [FLAGS] NAME",
		Short: short,
		Example: "  fumehood " + name + ` agent-7
  fumehood ` + name + " --context plots agent-7",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.openClient(&f)
			if err != nil {
				return err
			}
			defer c.Close()
			s, err := c.Sandbox(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			id, err := contextID(&s, of, language, name == "interrupt")
			if err != nil {
				return err
			}
			return do(c, cmd.Context(), args[0], id)
		},
	}
	cmd.Flags().StringVar(&of, "context", sandbox.DefaultContext, "`NAME` of the context (default \""+sandbox.DefaultContext+"\")")
	cmd.Flags().StringVarP(&language, "lang", "l", "", "`LANGUAGE` of the context, where several have the name")
	_ = cmd.Flags().SetAnnotation("lang", flagAlone, nil)
	completions(cmd, "lang", languageNames()...)
	f.add(cmd.Flags())
	cmd.ValidArgsFunction = a.completeNames(&f, 1)
	return cmd
}

// contextID finds the one context of a name, or of an id. The default contexts of all languages have one name; busy prefers the one that
// runs code.
func contextID(s *apiclient.Sandbox, of, language string, busy bool) (string, error) {
	id := of // the server says what is wrong with one that is not there
	var languages, running []string
	for _, context := range s.Contexts {
		if (context.Name == of || context.ID == of) && (language == "" || context.Language == languageOf(language)) {
			languages = append(languages, context.Language)
			if id = context.ID; id == "" { // it has no interpreter yet
				id = of
			}
			if busy && context.State == "busy" {
				running = append(running, id)
			}
		}
	}
	if len(running) == 1 {
		return running[0], nil
	}
	if len(languages) > 1 {
		return "", &sandbox.Error{Kind: sandbox.Invalid, Op: "--context", Msg: "several contexts are called " + of + ": of " + inWords(languages),
			Fix: "--lang " + languages[0]}
	}
	if len(languages) == 0 && language != "" {
		return "", sandbox.Invalidf("--lang", "no context %.64q is of %s", of, language)
	}
	return id, nil
}

// languageOf is the name of a language that is given by its name or an alias.
func languageOf(name string) string {
	if l, ok := spokenAs(name); ok {
		return l.Name
	}
	return name
}

// spokenAs finds a language by its name or an alias.
func spokenAs(name string) (sandbox.Language, bool) {
	for _, l := range lang.All() {
		if l.Name == name || slices.Contains(l.Aliases, name) {
			return l, true
		}
	}
	return sandbox.Language{}, false
}
