// Numbers for people: three digits, and the unit that needs the fewest.

export function digits(number) {
  if (!Number.isFinite(number)) return "–";
  if (number === 0) return "0";
  const size = Math.abs(number);
  if (size >= 100) return Math.round(number).toLocaleString("en-US");
  return `${Number(number.toPrecision(3))}`;
}

export const micros = (us) => (us >= 10000 ? `${digits(us / 1000)} ms` : `${digits(us)} us`);
export const percent = (share) => (share === null || share === undefined ? "–" : `${digits(share * 100)} %`);
export const mpps = (pps) => `${digits(pps / 1e6)} Mpps`;
export const withInterval = ({ mean, ci95 }) => (ci95 ? `${digits(mean)} <span class="ci">± ${digits(ci95)}</span>` : digits(mean));
export const className = (name) => (name.startsWith("c") ? `class ${name.slice(1)}` : name.toUpperCase());
