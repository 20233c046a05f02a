// Returns what a page lacks of WCAG AA, as far as a script can tell: contrast of text, names of fields, buttons and
// links, headings, the language, duplicate ids. Colours are resolved by a canvas, so that every CSS notation counts.
() => {
  const found = [];
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const luminance = ([r, g, b]) =>
    [r, g, b].map((v) => ((v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const over = (top, under) => top.slice(0, 3).map((v, i) => v * top[3] + under[i] * (1 - top[3])).concat(1);
  const back = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) layers.push(rgba(getComputedStyle(each).backgroundColor));
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]);
  };
  const isShown = (element) => {
    const box = element.getBoundingClientRect();
    return element.checkVisibility({ opacityProperty: false, visibilityProperty: true }) && box.width > 1 && box.height > 1;
  };
  const name = (element) => {
    const labelled = (element.getAttribute("aria-labelledby") || "").split(" ").map((id) => document.getElementById(id)?.textContent || "").join("");
    const labels = [...(element.labels || [])].map((label) => label.textContent).join("");
    const alternatives = [...element.querySelectorAll?.("img[alt]") || []].map((img) => img.alt).join("");
    return (element.getAttribute("aria-label") || labelled || labels || element.textContent || alternatives || element.title || "").trim();
  };
  for (const element of document.querySelectorAll("body *")) {
    const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!hasText || !isShown(element) || element.closest("option, select, :disabled, .off, [hidden]")) continue;
    const style = getComputedStyle(element);
    const behind = back(element);
    const [light, dark] = [luminance(over(rgba(style.color), behind)), luminance(behind)].sort((a, b) => b - a);
    const ratio = (light + 0.05) / (dark + 0.05);
    const isLarge = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
    if (ratio < (isLarge ? 3 : 4.5)) found.push(`contrast ${ratio.toFixed(2)} of ${element.tagName}.${element.className}: ${element.textContent.trim().slice(0, 40)}`);
  }
  for (const element of document.querySelectorAll("input:not([type=hidden]), select, textarea, button, a[href], meter, progress, dialog")) {
    const text = element.matches("input, select, textarea") ? (element.getAttribute("aria-label") || [...element.labels].map((l) => l.textContent).join("")).trim() : name(element);
    if (!text) found.push(`no name: ${element.outerHTML.slice(0, 100)}`);
  }
  if (document.querySelectorAll("h1").length !== 1) found.push(`${document.querySelectorAll("h1").length} h1`);
  if (!document.documentElement.lang) found.push("no language");
  const ids = [...document.querySelectorAll("[id]")].map((each) => each.id);
  for (const id of new Set(ids)) if (ids.filter((each) => each === id).length > 1) found.push(`id ${id} twice`);
  for (const image of document.querySelectorAll("img:not([alt])")) found.push(`no alt: ${image.outerHTML}`);
  for (const cell of document.querySelectorAll("th:not([scope])")) found.push(`no scope: ${cell.outerHTML.slice(0, 80)}`);
  return found;
}
