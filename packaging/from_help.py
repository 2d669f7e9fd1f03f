#!/usr/bin/env python3
"""Writes the completion files for bash and zsh and the manual page from what the command says of itself.

    packaging/from_help.py build/release/apps/contcore           writes contcore.bash, _contcore and contcore.1 beside
                                                                 this file; what else the page says is in contcore.1.in
    packaging/from_help.py build/release/apps/contcore --check   fails when they are not what it would write
"""

import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
REMEDY = "run packaging/from_help.py on the command that was built"
OPTION = re.compile(r"^  (-\S+?(?:,-\S+?)*)(?: (\S.*?))?(?:  +(\S.*))?$")
NAME = re.compile(r"^  ([a-z]\S*)(?:  +(\S.*))?$")
BACKBONES = ["resnet50", "builtin"]
DEVICES = ["auto", "cpu", "cuda"]


class Option:
    def __init__(self, names, value, text):
        self.names, self.text = names, text
        self.value = (value or "").split(" ")[0].split(":")[0].split("=")[0]
        words = re.search(r"{([^}]*)}", value or "")
        self.words = words.group(1).split(",") if words else []
        if "--backbone" in names:
            self.words = BACKBONES
        if "--device" in names:
            self.words = DEVICES

    def kind(self):
        """What completes its value: nothing, words, folders or files."""
        if self.value == "DIR":
            return "folders"
        return "files" if self.value == "FILE" or "." in self.value else "words"


class Command:
    """A command as its --help shows it, with the commands in it."""

    def __init__(self, program, path, text=""):
        self.path, self.text, self.options, self.commands = path, text, [], []
        shown = subprocess.run([program, *path, "--help"], capture_output=True, text=True, check=True).stdout
        self.shown = shown
        part = ""
        lines = shown.splitlines()
        for i, line in enumerate(lines):
            if re.match(r"^\S.*:$", line):
                part = line
            following = lines[i + 1].strip() if i + 1 < len(lines) else ""
            if part == "Options:" and (found := OPTION.match(line)):
                names, value, said = found.groups()
                self.options.append(Option(names.split(","), value, said or following))
            elif part == "Subcommands:" and (found := NAME.match(line)):
                self.commands.append(Command(program, path + [found.group(1)], found.group(2) or following))

    def all(self):
        return [self] + [inner for command in self.commands for inner in command.all()]

    def name(self):
        return " ".join(self.path)


def first_sentence(text):
    """Of a description, what fits on a line."""
    return re.split(r" \(|[:;.] |:$", text.removeprefix("New memory: "))[0]


BASH = """\
# Completion of contcore for bash. Made by packaging/from_help.py, which is to be run again when options change.

_contcore() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command= commands= options= i
  COMPREPLY=()
  # The command that is meant, with the one inside it.
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$command ${COMP_WORDS[i]}" in
%(known)s
      *) [ -n "$command" ] || return 0 ;;
    esac
  done
  case "$command" in
%(choices)s
  esac
  # A value.
  case "$command $before" in
%(values)s
  esac
  if [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
  elif [ -n "$commands" ]; then
    mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$word")
  else
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}
complete -F _contcore contcore
"""


def bash(root):
    known, choices, values = [], [], []
    for command in root.all():
        for inner in command.commands:
            known.append('      "%s %s") command="%s" ;;' % (command.name(), inner.path[-1], inner.name()))
        inner = [c.path[-1] for c in (root if command.name() == "help" else command).commands]
        lines = ['    "%s")' % command.name()]
        if inner:
            lines.append('      commands="%s"' % " ".join(inner))
        lines.append('      options="%s" ;;' % " ".join(name for option in command.options for name in option.names))
        choices += lines
        for option in command.options:
            if not option.value:
                continue
            pattern = " | ".join('"%s %s"' % (command.name(), name) for name in option.names)
            how = []
            if option.words:
                how.append('compgen -W "%s" -- "$word"' % " ".join(option.words))
            if option.kind() != "words":
                how.append('compgen %s -- "$word"' % {"folders": "-d", "files": "-f"}[option.kind()])
            values.append("    %s)" % pattern)
            if option.kind() != "words":
                values.append("      compopt -o filenames 2>/dev/null")
            if how:
                values.append("      mapfile -t COMPREPLY < <(%s)" % "; ".join(how))
            values.append("      return 0 ;;")
    return BASH % {"known": "\n".join(known), "choices": "\n".join(choices), "values": "\n".join(values)}


ZSH = """\
#compdef contcore
# Completion of contcore for zsh. Made by packaging/from_help.py, which is to be run again when options change.

%(functions)s
_contcore "$@"
"""


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def zsh_text(text):
    return re.sub(r"([\[\]:\\])", r"\\\1", text)


def zsh_option(option):
    action = ""
    if option.value:
        words = "(%s)" % " ".join(option.words)
        how = {"folders": "_files -/", "files": "_files", "words": words if option.words else " "}[option.kind()]
        if option.words and option.kind() == "files":
            how = ' _alternative "words\\:name\\:%s" "files\\:file\\:_files"' % words
        action = ":%s:%s" % (zsh_text(option.value), how)
    text = "[%s]%s" % (zsh_text(first_sentence(option.text)), action)
    if len(option.names) == 1:
        return quoted(option.names[0] + text)
    return quoted("(%s)" % " ".join(option.names)) + "{" + ",".join(option.names) + "}" + quoted(text)


def zsh_function(command, root):
    lines = ["_contcore%s() {" % "".join("_" + word for word in command.path)]
    specs = [zsh_option(option) for option in command.options]
    if not command.commands:
        files = "_contcore_commands" if command.name() == "help" else "_files"
        lines.append("  _arguments -s \\\n    " + " \\\n    ".join(specs + [quoted("*:file:" + files)]))
        return lines + ["}", ""]
    here = "_contcore%s_commands" % "".join("_" + word for word in command.path)
    lines.append("  local state line")
    lines.append("  _arguments -C \\\n    " + " \\\n    ".join(specs + [quoted("1:command:" + here), "'*::argument:->inner'"]))
    lines.append('  [[ $state == inner ]] && (( $+functions[_contcore%s_$line[1]] )) && _contcore%s_$line[1]'
                 % (("".join("_" + word for word in command.path),) * 2))
    lines += ["}", "", here + "() {", "  local -a commands=("]
    for inner in command.commands:
        lines.append("    " + quoted("%s:%s" % (inner.path[-1], first_sentence(inner.text))))
    return lines + ["  )", "  _describe command commands", "}", ""]


def zsh(root):
    lines = [line for command in root.all() for line in zsh_function(command, root)]
    return ZSH % {"functions": "\n".join(lines)}


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return "\\&" + text if text.startswith(".") else text


def man_command(command):
    """Its help: what it does, how it is called, its arguments and options, examples and remarks."""
    lines = [".SS contcore " + command.name()]
    part, entry = "what", False
    for line in command.shown.rstrip().splitlines():
        if line.startswith("Usage: "):
            lines += [".PP", ".B " + roff(line.removeprefix("Usage: "))]
        elif line in ("Positionals:", "Options:"):
            part = line
        elif part == "what" or (part.endswith(":") and not line):
            part = part if line else "between"
            lines += [roff(line)] if line else []
        elif part.endswith(":"):
            name, _, said = line.strip().partition("  ") if line.startswith("  ") and line[2] != " " else ("", "", line)
            name = re.sub(r" (REQUIRED|Excludes: .*|x 2)|:(UINT|INT|FLOAT)( in \[[^]]*\])?|:{[^}]*}", "", name)
            if name.startswith("-h,"):
                continue
            lines += [".TP", ".B " + roff(name)] if name else []
            lines += [roff(said.strip())] if said.strip() else []
        else:
            if part != "after":
                lines += [".PP", ".EX"]
            part = "after"
            lines.append(roff(line))
    return lines + ([".EE"] if part == "after" else [])


def man(root):
    """The text that is written by hand, with the help of each command in it."""
    with open(os.path.join(HERE, "contcore.1.in")) as file:
        text = file.read()
    commands = [c for c in root.all() if c.path and not c.commands and c.name() != "help"]
    return text.replace("@COMMANDS@", "\n".join(line for c in commands for line in man_command(c)))


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--check"]):
        sys.exit(__doc__)
    root = Command(os.path.abspath(sys.argv[1]), [])
    for name, text in [("contcore.bash", bash(root)), ("_contcore", zsh(root)), ("contcore.1", man(root))]:
        path = os.path.join(HERE, name)
        if sys.argv[2:]:
            with open(path) as file:
                if file.read() != text:
                    sys.exit("packaging/%s does not know the command's options; %s" % (name, REMEDY))
        else:
            with open(path, "w") as file:
                file.write(text)


if __name__ == "__main__":
    main()
