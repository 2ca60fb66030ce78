package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/client"
	"github.com/fumehood-dev/fumehood/internal/cli/settings"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func (a *app) newInterrupt() *cobra.Command {
	return a.newContextCommand("interrupt", "Interrupt the code in a context; its variables stay",
		(*client.Client).Interrupt)
}

func (a *app) newRestart() *cobra.Command {
	return a.newContextCommand("restart", "Restart the interpreter of a context, without variables",
		(*client.Client).Restart)
}

func (a *app) newContextCommand(name, short string,
	act func(c *client.Client, ctx context.Context, sandbox, context string) error) *cobra.Command {
	var of, language string
	cmd := &cobra.Command{
		Use:     name + " [FLAGS] NAME",
		Short:   short,
		Example: "  fumehood " + name + " agent-7\n  fumehood " + name + " --context plots agent-7",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&of, "context", sandbox.DefaultContext,
		"`NAME` of the context (default \""+sandbox.DefaultContext+"\")")
	cmd.Flags().StringVarP(&language, "lang", "l", "", "`LANGUAGE` of the context, if several have the name")
	_ = cmd.Flags().SetAnnotation("lang", settings.NoSetting, nil)
	completions(cmd, "lang", languageNames()...)
	return a.onServer(cmd, 1, func(ctx context.Context, c *client.Client, args []string) error {
		s, err := c.Sandbox(ctx, args[0])
		if err != nil {
			return err
		}
		id, err := contextID(&s, of, language, name == "interrupt")
		if err != nil {
			return err
		}
		return act(c, ctx, args[0], id)
	})
}

// contextID finds the one context of a name or an id. The default contexts of all languages have the same name; busy
// prefers the one that runs code. An unknown name is returned unchanged: the server reports the error.
func contextID(s *api.Sandbox, of, language string, busy bool) (string, error) {
	if l, ok := languageNamed(language); ok {
		language = l.Name
	}
	id := of
	var languages, running []string
	for _, context := range s.Contexts {
		if (context.Name == of || string(context.ID) == of) && (language == "" || context.Language == language) {
			languages = append(languages, context.Language)
			if id = string(context.ID); id == "" { // its interpreter has not started yet
				id = of
			}
			if busy && context.State == "busy" {
				running = append(running, id)
			}
		}
	}
	switch {
	case len(running) == 1:
		return running[0], nil
	case len(languages) > 1:
		return "", invalid("--context", "several contexts are called "+of+": of "+inWords(languages),
			"--lang "+languages[0])
	case len(languages) == 0 && language != "":
		return "", sandbox.Invalidf("--lang", "no context %.64q is of %s", of, language)
	}
	return id, nil
}
