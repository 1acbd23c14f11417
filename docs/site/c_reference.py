"""Lists the public names of the C and C++ headers, as Doxygen reads them, and makes their part of
the site.

A page of docs/api/ has a line `::: PATH` for each header, and stage.py puts the header's names in
its place. The script reads Doxygen's XML and not its HTML, and needs no plugin of MkDocs. The pages
therefore have the site's menu, search and check of links, and one header stays one piece that can
be read through.
"""

import pathlib
import re
import subprocess
import tempfile
import textwrap
import xml.etree.ElementTree as ElementTree

import statements

DIRECTIVE = re.compile(r"^::: (\S+\.h)$", re.MULTILINE)
LIBRARY = "kernels/include/fairdraw"
PLUGIN = "harness/plugin/CMakeLists.txt"  # the file in which CMake names the headers of plugins
#: Parameters of these types are arrays, whose shape the function's comment must state.
ARRAY = re.compile(r"\b(View|PerRequest|RowsView|FloatRows|BitRows|TileRows|TokenLists)\b")
#: Fields of these types are arrays, too. All other types state the shape in their members.
ARRAY_FIELD = re.compile(r"\b(View|PerRequest)<|\b(float|u?int\d+_t)\*$")
#: Functions that return these types report errors, and the statement at the head of their header
#: holds for them.
REPORTS = re.compile(r"(?:fairdraw::)?Error|int32_t")
#: Functions and types that cannot fail although their declaration does not say so, each with the
#: reason. A lack of memory is no failure here. Functions that return an error code are never
#: exempt.
NEVER_FAIL = {
    "fairdraw::BatchState::compact": "moves requests within slots that the state has",
    "fairdraw::BatchState::clear_allowed": "writes memory that the state has",
    "fairdraw::FusedSamplingProcessor::clear_bitmask": "writes memory that the state has",
    "fairdraw::ShardedSample": "reads the call in progress, or answers that there is none",
    "fairdraw::cuda::ShardedCall": "reads a call that make_sharded_call() has checked",
    "fairdraw::cuda::why_not_available": "answers why other calls fail",
}
#: Headers whose functions implement no definition of sampling, each with the reason.
NO_DEFINITION = {
    f"{LIBRARY}/types.h": "holds arguments and results, and tells what the CPU can run",
    f"{LIBRARY}/token_lists.h": "holds arguments",
    f"{LIBRARY}/fresh_seed.h": "asks the operating system",
    f"{LIBRARY}/cuda_memory.h": "asks the CUDA runtime",
}
SETTINGS = """
INPUT = {input}
OUTPUT_DIRECTORY = {output}
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
MARKDOWN_SUPPORT = NO
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = FAIRDRAW_PLUGIN_EXPORT=
QUIET = YES
WARN_IF_UNDOCUMENTED = NO
WARN_AS_ERROR = FAIL_ON_WARNINGS
"""


class Name:
    """A public name: its kind, its signature, its comment, and the members of its type."""

    def __init__(self, element, scope):
        self.identifier = element.get("id")
        self.kind = element.get("kind") or "enumerator"
        self.name = (element.findtext("compoundname") or element.findtext("name")).split("::")[-1]
        self.scope = scope
        self.comment = [*element.findall("briefdescription/para"),
                        *element.findall("detaileddescription/para")]
        self.type = element.find("type")
        self.initializer = (element.findtext("initializer") or "").strip()
        self.arguments = element.findtext("argsstring") or ""
        self.parameters = [(flat(each.find("type")), each.findtext("declname") or "",
                            each.findtext("defval") or "") for each in element.findall("param")]
        self.templates = [flat(each.find("type")) + " " + (each.findtext("declname") or "")
                          for each in element.findall("templateparamlist/param")]
        location = element.find("location")
        self.file = location.get("file") if location is not None else ""
        self.line = int(location.get("line")) if location is not None else 0
        self.members = []

    @property
    def qualified(self):
        return "::".join(filter(None, [self.scope, self.name]))

    @property
    def text(self):
        return " ".join(" ".join("".join(para.itertext()).split()) for para in self.comment)

    def is_implied(self):
        """Returns true for destructors, for constructors and assignments that copy or move, and for
        functions that are defaulted or deleted."""
        own = self.scope.split("::")[-1]
        copies = [kind for kind, _, _ in self.parameters if re.search(rf"\b{own}\b.*&", kind)]
        return self.kind == "function" and (
            re.search(r"= ?(default|delete)$", self.arguments) is not None
            or self.name.startswith("~")
            or (bool(copies) and self.name in (own, "operator=")))

    @property
    def where(self):
        return f"{self.file}:{self.line}: {self.kind} {self.qualified}"

    def reports_errors(self):
        return REPORTS.fullmatch(flat(self.type)) is not None

    def can_fail(self):
        """Returns whether a function's declaration permits errors or exceptions."""
        if self.reports_errors():
            return True
        return ("noexcept" not in self.arguments and "constexpr" not in flat(self.type)
                and not {self.qualified, self.scope} & NEVER_FAIL.keys())

    def lacks_statements(self, root, owner, head):
        """Lists the statements that neither the comment of a function, nor the comment of its type,
        nor the head of its header makes. The statement of errors in the last two texts holds only
        for functions that return an error code."""
        if self.kind != "function" or self.is_implied():
            return []
        own, shared = [self.text], [owner.text if owner else "", head]
        found = []
        if self.can_fail():
            found += statements.wrong(root, statements.ERRORS, stated(
                statements.ERRORS, own + shared if self.reports_errors() else own), head_of)
        if self.file not in NO_DEFINITION:
            found += statements.wrong(root, statements.DEFINITION,
                                      stated(statements.DEFINITION, own + shared), head_of)
        return [f"{self.where}: {line}" for line in found]

    def lacks(self):
        """Lists the omissions of the comment of one name."""
        if self.is_implied():
            return []
        where = self.where
        if not self.text:
            return [f"{where} has no comment"]
        if self.kind == "variable" and ARRAY_FIELD.search(flat(self.type)) and "[" not in self.text:
            return [f"{where}: its comment has no shape, such as [rows]"]
        return [f"{where}: its comment has no shape of '{name}', such as `{name}`: [rows]"
                for kind, name, _ in self.parameters
                if ARRAY.search(kind) and not re.search(rf"\b{name}\b[^.;]*\[[^\]]+\]", self.text)]


def flat(element):
    """Returns the text of a type, without Doxygen's spaces."""
    text = " ".join("".join(element.itertext()).split()) if element is not None else ""
    return re.sub(r" ?([<>]) ?", r"\1", text).replace(">&", "> &").replace(" &", "&").replace(" *", "*")


def headers(root):
    """Lists the headers that CMake installs, by their paths in the repository."""
    plugin = (root / PLUGIN).read_text(encoding="utf-8")
    return sorted([*(str(path.relative_to(root)) for path in (root / LIBRARY).glob("*.h")),
                   *(f"harness/contract/{name}" for name in re.findall(r"\.\./contract/(\w+\.h)", plugin))])


def read(root, files):
    """Lists the names that these headers declare, in the order of the files and of their lines."""
    with tempfile.TemporaryDirectory() as folder:
        settings = SETTINGS.format(input=" ".join(files), output=folder)
        run = subprocess.run(["doxygen", "-"], input=settings, cwd=root, capture_output=True, text=True,
                             check=False)
        if run.returncode != 0:
            raise RuntimeError(f"doxygen: {run.stderr}")
        compounds = [compound for path in sorted(pathlib.Path(folder, "xml").glob("*.xml"))
                     for compound in ElementTree.parse(path).getroot().findall("compounddef")]
    found, types = {}, {}
    for compound in compounds:
        kind, scope = compound.get("kind"), compound.findtext("compoundname")
        if kind in ("struct", "class", "union"):
            parent = scope.rpartition("::")[0]
            owner = found[compound.get("id")] = types[scope] = Name(compound, parent)
            owner.is_public = compound.get("prot") == "public"
    for compound in compounds:
        scope = compound.findtext("compoundname")
        owner = types.get(scope)
        scope = "" if compound.get("kind") in ("file", "dir") else scope
        for element in compound.findall("sectiondef/memberdef"):
            if element.get("prot") == "private" or element.get("kind") == "friend":
                continue
            if element.get("id") in found and not scope:
                continue  # a file also contains the names of its namespaces
            name = found[element.get("id")] = Name(element, scope)
            for value in element.findall("enumvalue"):
                member = Name(value, name.qualified)
                member.file, member.line = name.file, name.line
                name.members.append(member)
            if owner:
                owner.members.append(name)
                del found[element.get("id")]
    outer = [name for name in found.values() if getattr(name, "is_public", True) and name.file
             and not (name.kind == "define" and (not name.initializer or name.name.endswith("_EXPORT")))
             and not (name.kind == "typedef" and name.qualified in types)
             and not name.name.startswith("@")]
    order = {file: number for number, file in enumerate(files)}
    return sorted((name for name in outer if name.file in order),
                  key=lambda name: (order[name.file], name.line))


def stated(label, texts):
    """Returns the statements under a label of the first of these texts that has such a
    statement."""
    return next(filter(None, (statements.statements(text, label) for text in texts)), [])


def lacks(names, root):
    """Lists the missing statements and shapes in the comments of names and of their members."""
    found = []
    heads = {file: head_of(root / file) for file in {name.file for name in names}}
    for name in names:
        found += name.lacks()
        found += [line for member in name.members for line in member.lacks()]
        found += name.lacks_statements(root, None, heads[name.file])
        found += [line for member in name.members
                  for line in member.lacks_statements(root, name, heads[name.file])]
    return found


# --- Markdown ------------------------------------------------------------------------------------


def escaped(text):
    """Returns the text for Markdown, in which code in backticks stays code."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(part if number % 2 else re.sub(r"([\\`*_\[\]<>#|])", r"\\\1", part)
                   for number, part in enumerate(parts))


def marked_up(element, anchors):
    """Returns the text of a comment or a type as Markdown in one line, with links to other
    names."""
    is_type = element.tag == "type"

    def code(text):
        text = re.sub(r"^< ?| ?>$", lambda match: match[0].strip(), " ".join(text.split()))
        return f"`{text}`" if text else ""

    parts = [code(element.text or "") if is_type else escaped(element.text or "")]
    for child in element:
        text = "".join(child.itertext())
        if child.tag == "ref" and child.get("refid") in anchors:
            parts.append(f"[{code(text)}]({anchors[child.get('refid')]})")
        elif is_type:
            parts.append(code(text))
        elif child.tag == "itemizedlist":
            parts += [" " + marked_up(para, anchors) for para in child.iter("para")]
        else:
            parts.append(escaped(text))
        parts.append(code(child.tail or "") if is_type else escaped(child.tail or ""))
    return " ".join(("" if is_type else "").join(parts).split())


def described(name, anchors):
    text = " ".join(marked_up(para, anchors) for para in name.comment)
    return statements.set_apart(text) if name.kind == "function" else text


def signature(name):
    """Returns the declaration, in lines of at most 96 characters."""
    before = f"template <{', '.join(part.strip() for part in name.templates)}>\n" if name.templates else ""
    if name.kind in ("struct", "class", "union"):
        return f"{before}{name.kind} {name.qualified}"
    if name.kind == "enum":
        return f"enum {name.qualified}" + (f" : {flat(name.type)}" if flat(name.type) else "")
    if name.kind == "define":
        return f"#define {name.name} {name.initializer}"
    kind = flat(name.type)
    if name.kind != "function":
        return f"{before}{kind} {name.qualified} {name.initializer}".rstrip()
    words = [f"{type_} {declared}".strip() + (f" = {default}" if default else "")
             for type_, declared, default in name.parameters]
    begin, end = f"{kind} {name.qualified}(".lstrip(), name.arguments.rpartition(")")[2]
    line = f"{begin}{', '.join(words)}){end}"
    if len(line) > 96:
        line = begin + "\n    " + ",\n    ".join(words) + f"){end}"
    return before + line


def bare(comment):
    """Returns the text of a comment, with its lines."""
    lines = comment.strip().splitlines()
    if comment.lstrip().startswith("//"):
        return "\n".join(re.sub(r"^\s*/{2,3} ?", "", line) for line in lines)
    return "\n".join(re.sub(r"\s*\*/$", "", re.sub(r"^\s*(?:/\*\*? ?|\* |\*$|  )", "", line))
                     for line in lines)


def is_set(text):
    """Returns true if a comment has lines that must stay as they are: lists, formulas, tables."""
    return re.search(r"^(?:[ ]|- )", text, re.MULTILINE) is not None


def essay(text):
    """Returns a long comment as Markdown: prose stays prose, and lines that must stay as they are
    become a block of text."""
    parts = []
    for part in re.split(r"\n{2,}", text.strip("\n")):
        before, lines = re.match(r"((?:(?! |- )[^\n]+(?:\n|\Z))*)(.*)", part, re.DOTALL).groups()
        lines, after = re.match(r"(.*?)((?:^(?! |- )[^\n]+(?:\n|\Z))*)\Z", lines,
                                re.DOTALL | re.MULTILINE).groups()
        block = textwrap.dedent(lines).strip("\n")
        parts += [statements.set_apart(escaped(before.strip())), f"```text\n{block}\n```" if block else "",
                  statements.set_apart(escaped(after.strip()))]
    return [part for part in parts if part]


def head(text):
    """Returns the comment at the beginning of a header."""
    found = re.match(r"(?://[^\n]*\n)+|/\*.*?\*/", text, re.DOTALL)
    return bare(found[0]) if found else ""


def head_of(path):
    return head(path.read_text(encoding="utf-8"))


def comment_above(text, line):
    """Returns the comment that ends in the line before a declaration, or before the declaration's
    template line."""
    lines = text.splitlines()[: line - 1]
    while lines and lines[-1].startswith("template"):
        lines.pop()
    found = re.search(r"(?:^ *///[^\n]*\n?)+\Z|/\*\*(?:(?!\*/).)*\*/\Z", "\n".join(lines),
                      re.MULTILINE | re.DOTALL)
    return bare(found[0]) if found else ""


def table(name, anchors):
    if name.kind == "enum":
        rows = [("name", "value", "meaning")]
        rows += [(f"`{each.name}`", f"`{each.initializer.removeprefix('= ')}`", described(each, anchors))
                 for each in name.members]
    else:
        rows = [("field", "type", "default", "meaning")]
        rows += [(f"`{each.name}{each.arguments}`", marked_up(each.type, anchors),
                  f"`{default}`" if (default := re.sub(r"^= ?", "", each.initializer)) else "",
                  described(each, anchors)) for each in name.members if each.kind == "variable"]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return ["\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])] if rows[1:] else []


def anchor(name):
    return re.sub(r"\W+", "-", name.qualified).strip("-").lower()


def unique_anchors(names):
    """Gives each identifier the anchor of its name; only the first of several overloads gets the
    anchor without a number."""
    found, taken = {}, {}
    for name in names:
        number = taken[anchor(name)] = taken.get(anchor(name), 0) + 1
        found[name.identifier] = anchor(name) + (f"-{number}" if number > 1 else "")
    return found


def head_anchor(file):
    return "head-" + re.sub(r"\W+", "-", pathlib.Path(file).name)


def pointer(name, text):
    """Returns a line that points to the head of the header, if only the head states the errors or
    the definition of the name's functions."""
    functions = [each for each in (name, *name.members) if each.kind == "function" and not each.is_implied()]
    labels = [label for label in (statements.ERRORS, statements.DEFINITION)
              if statements.statements(head(text), label)
              and any(not statements.statements(each.text, label) for each in functions
                      if label == statements.DEFINITION or each.reports_errors())]
    file = escaped(pathlib.Path(name.file).name)
    return [f"{' and '.join(labels)}: see the head of [{file}](#{head_anchor(name.file)})."] if labels else []


def section(name, text, own, anchors):
    """Returns the part of a page about one name. `own` has the anchors of the page, and `anchors`
    the links from it."""
    above = comment_above(text, name.line)
    parts = [f'<a id="{own[name.identifier]}"></a>', f"### {escaped(name.qualified)}",
             f"```cpp\n{signature(name)}\n```",
             *(essay(above) if is_set(above) else [described(name, anchors)]),
             *pointer(name, text),
             f"Source: [{name.file}:{name.line}](../../{name.file})"]
    parts += table(name, anchors)
    for member in name.members:
        if member.kind == "function" and not member.is_implied():
            parts += [f"```cpp\n{signature(member)}\n```", described(member, anchors)]
    return parts


def expand(root, pages):
    """Returns the pages, by their paths, with the names of the headers that they list."""
    files = [file for text in pages.values() for file in DIRECTIVE.findall(text)]
    names = read(root, files)
    own = unique_anchors(names)
    page_of = {file: path for path, text in pages.items() for file in DIRECTIVE.findall(text)}
    expanded = {}
    for path, text in pages.items():
        anchors = {name.identifier: ("" if page_of[name.file] == path
                                     else pathlib.Path(page_of[name.file]).name)
                   + "#" + own[name.identifier] for name in names}

        def header(match, anchors=anchors):
            file = match[1]
            text = (root / file).read_text(encoding="utf-8")
            parts = [f'<a id="{head_anchor(file)}"></a>', f"## {escaped(pathlib.Path(file).name)}",
                     *essay(head(text))]
            for name in names:
                if name.file == file:
                    parts += section(name, text, own, anchors)
            return "\n\n".join(parts) + "\n"

        expanded[path] = DIRECTIVE.sub(header, text)
    return expanded
