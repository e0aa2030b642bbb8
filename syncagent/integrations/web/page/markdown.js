// Markdown as elements. Text becomes text nodes, never markup; images are not loaded.

import { $, button, element } from "./text.js";

const MAX_DEPTH = 20; // of lists and quotes inside of each other
const COPIED_TIME = 2000; // milliseconds

// -- blocks ------------------------------------------------------------------------

const FENCE = /^( *)(`{3,}|~{3,})(.*)$/;
const HEADING = /^(#{1,6})\s+(.+?)(?:\s+#+)?\s*$/;
const RULE = /^ {0,3}([-*_])(?: *\1){2,}\s*$/;
const QUOTE = /^ {0,3}>/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])( +|$)/;
const DASHES = /^ *\|?(?: *:?-+:? *\|)+(?: *:?-+:? *)?$|^ *\| *:?-+:? *$/;
const isBlank = (line) => line.trim() === "";
const isTable = (lines, at) => lines[at].includes("|") && at + 1 < lines.length && DASHES.test(lines[at + 1]);
// The end of a fence that `opening` began.
const closes = (opening, line) => { const end = FENCE.exec(line); return Boolean(end) && end[2][0] === opening[2][0] && end[2].length >= opening[2].length && isBlank(end[3]); };
const startsBlock = (lines, at) => FENCE.test(lines[at]) || HEADING.test(lines[at]) || RULE.test(lines[at]) || QUOTE.test(lines[at]) || ITEM.test(lines[at]) || isTable(lines, at);

// Text as blocks. While it is written they are made again and again, without buttons.
export function blocks(text, canCopy = true, depth = 0) {
  if (depth > MAX_DEPTH) return [element("p", "", text)];
  const lines = text.split("\n");
  const made = [];
  for (let at = 0; at < lines.length;) {
    const [block, next] = isBlank(lines[at]) ? [null, at + 1] : readBlock(lines, at, canCopy, depth);
    if (block) made.push(block);
    at = next;
  }
  return made;
}

// Return the block that begins in a line, and the line after it.
function readBlock(lines, at, canCopy, depth) {
  const fence = FENCE.exec(lines[at]);
  if (fence) return readCode(lines, at, fence, canCopy);
  const heading = HEADING.exec(lines[at]);
  if (heading) return [element("h" + Math.min(6, heading[1].length + 2), "", ...inline(heading[2])), at + 1];
  if (RULE.test(lines[at])) return [element("hr", ""), at + 1];
  if (QUOTE.test(lines[at])) {
    let end = at;
    while (end < lines.length && QUOTE.test(lines[end])) end++;
    const inner = lines.slice(at, end).map((line) => line.replace(/^ *> ?/, "")).join("\n");
    return [element("blockquote", "", ...blocks(inner, canCopy, depth + 1)), end];
  }
  if (ITEM.test(lines[at])) return readList(lines, at, canCopy, depth);
  if (isTable(lines, at)) return readTable(lines, at);
  let end = at + 1;
  while (end < lines.length && !isBlank(lines[end]) && !startsBlock(lines, end)) end++;
  return [element("p", "", ...inline(lines.slice(at, end).join("\n").trimEnd())), end];
}

function readCode(lines, at, opening, canCopy) {
  let end = at + 1;
  while (end < lines.length && !closes(opening, lines[end])) end++;
  const indent = new RegExp(`^ {0,${opening[1].length}}`);
  const code = lines.slice(at + 1, end).map((line) => line.replace(indent, "")).join("\n");
  const isOpen = end === lines.length; // its last line break is not a part of it
  const pre = element("pre", "", isOpen ? code.replace(/\n$/, "") : code);
  const bar = element("div", "bar", element("span", "", opening[3].trim().split(/\s/)[0]));
  if (canCopy) bar.append(button("Copy", "quiet small copy", (event) => copy(event.currentTarget, pre)));
  return [element("div", "code", bar, pre), end + 1];
}

// A list: items of one kind and indentation; what is indented further is inside of them.
function readList(lines, at, canCopy, depth) {
  const [, indent, marker] = ITEM.exec(lines[at]);
  const isOrdered = /\d/.test(marker);
  const list = element(isOrdered ? "ol" : "ul", "");
  if (isOrdered) list.start = parseInt(marker, 10);
  while (at < lines.length) {
    const item = ITEM.exec(lines[at]);
    if (!item || item[1].length < indent.length || /\d/.test(item[2]) !== isOrdered || RULE.test(lines[at])) break;
    const width = item[1].length + item[2].length + 1;
    const inner = [lines[at].slice(item[0].length)];
    let end = at + 1, fence = null;
    for (; end < lines.length; end++) {
      const line = lines[end];
      const depth = line.search(/\S/);
      if (!fence && !isBlank(line) && depth <= item[1].length && (isBlank(lines[end - 1]) || startsBlock(lines, end))) break;
      const mark = FENCE.exec(line);
      if (fence ? closes(fence, line) : mark) fence = fence ? null : mark;
      inner.push(line.replace(new RegExp(`^ {0,${width}}`), ""));
    }
    list.append(itemOf(blocks(inner.join("\n").trimEnd(), canCopy, depth + 1)));
    at = end;
  }
  return [list, at];
}

// The text of an item stands beside its marker, without a paragraph of its own.
function itemOf(made) {
  const [first, ...others] = made;
  if (!first || first.tagName !== "P") return element("li", "", ...made);
  return element("li", "", ...first.childNodes, ...others);
}

function readTable(lines, at) {
  const sides = cellsOf(lines[at + 1]).map((dashes) => (/^:.*:$/.test(dashes) ? "center" : dashes.endsWith(":") ? "right" : ""));
  const row = (tag, line) => element("tr", "", ...sides.map((side, n) => element(tag, side, ...inline(cellsOf(line)[n] || ""))));
  let end = at + 2;
  while (end < lines.length && !isBlank(lines[end]) && lines[end].includes("|")) end++;
  const table = element("table", "", element("thead", "", row("th", lines[at])), element("tbody", "", ...lines.slice(at + 2, end).map((line) => row("td", line))));
  return [element("div", "table", table), end];
}
const cellsOf = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));

// Return where the last block of `text` starts, which may still change; never inside a
// fence, nor before a line that may belong to a list.
export function settledAt(text, from) {
  let at = from, settled = from, fence = null, isAfterBlank = false;
  for (;;) {
    if (!fence && isAfterBlank && at < text.length && /[^\s\d*+-]/.test(text[at])) settled = at;
    const end = text.indexOf("\n", at);
    if (end < 0) return settled;
    const line = text.slice(at, end);
    const mark = FENCE.exec(line);
    if (fence ? closes(fence, line) : mark) fence = fence ? null : mark;
    isAfterBlank = !fence && isBlank(line);
    at = end + 1;
  }
}

// -- inside of blocks --------------------------------------------------------------

// The lengths are limited, so that no text takes long.
const INLINE = new RegExp([
  String.raw`\\([\\${"`"}*_{}\[\]()#+.!|>~-])`,
  "(?<ticks>`+)(?!`)(?<code>[^\\n]{0,1000}?[^`\\n])\\k<ticks>(?!`)",
  String.raw`(?<strongMark>\*\*|__)(?=\S)(?<strong>[^\n]{0,1000}?[^\s\\])\k<strongMark>`,
  String.raw`(?<![\w*])(?<emMark>[*_])(?=[^\s*_])(?<em>[^\n]{0,1000}?[^\s\\])\k<emMark>(?!\w)`,
  String.raw`\[(?<label>[^\]\n]{1,500})\]\((?<href>[^\s()]{1,2000}(?:\([^\s()]{0,100}\)[^\s()]{0,100}){0,5})\)`,
  String.raw`(?<url>https?:\/\/[^\s<>"'${"`"}|]{0,2000}[^\s<>"'${"`"}|.,:;!?)\]*_])`,
].join("|"), "g");

// Render `code`, **strong**, *emphasis* and links; everything else stays plain text.
function inline(text) {
  const made = [];
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    const { code, strong, em, label, href, url } = match.groups;
    made.push(text.slice(at, match.index));
    at = match.index + match[0].length;
    if (match[1]) made.push(match[1]);
    else if (code) made.push(element("code", "", code));
    else if (strong) made.push(element("strong", "", ...inline(strong)));
    else if (em) made.push(element("em", "", ...inline(em)));
    else if (url) made.push(linkTo(url, [url]));
    else if (/^(https?|mailto):/i.test(href)) made.push(linkTo(href, inline(label)));
    else made.push(match[0]); // no other kind of address is a link
  }
  made.push(text.slice(at));
  return made.filter((part) => part !== "");
}

function linkTo(href, inside) {
  const made = element("a", "", ...inside);
  made.href = href;
  made.title = href; // where it leads, whatever the label says
  made.target = "_blank";
  made.rel = "noopener noreferrer";
  return made;
}

// -- copying -----------------------------------------------------------------------

async function copy(button, pre) {
  try { await navigator.clipboard.writeText(pre.textContent); } catch { // without https, or without permission
    getSelection().selectAllChildren(pre);
    const isCopied = document.execCommand("copy");
    if (!isCopied) return; // it is selected, at least
    getSelection().removeAllRanges();
  }
  button.textContent = "Copied";
  $("status").textContent = "Copied.";
  setTimeout(() => { button.textContent = "Copy"; }, COPIED_TIME);
}
